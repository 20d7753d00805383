"""Snapshots of JSON streams: put as a Command, bound to one life of the stream."""

import msgspec

from mainstem.errors import BadOffset, BadRequest, ContentTypeMismatch
from mainstem.log.commands import Key, View
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamSnapshot, StreamState, stream_key, stream_snapshot_key


class PutStreamSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Keep what a stream comes to, up to a committed id. An older one than the present is refused."""

    path: str
    committed_id: int
    offset: Offset
    """Where the first message begins that is not in it."""
    state: bytes
    touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.state)

    def needs(self) -> list[Key]:
        return [stream_key(self.path), stream_snapshot_key(self.path)]

    def apply(self, view: View) -> None:
        stream = lifecycle.check_alive(self.path, view.get(stream_key(self.path)), view.now_us, self.touched_us)
        if not is_json(stream.content_type):
            raise ContentTypeMismatch(f"{self.path!r} holds {stream.content_type}: only JSON streams have snapshots")
        if not 0 <= self.committed_id <= view.head:
            raise BadRequest(f"the log ends at {view.head}: there is no {self.committed_id} yet")
        if self.offset.read_seq != stream.read_seq or self.offset > stream.next_offset:
            raise BadOffset(f"{self.offset} is no offset of this stream, which ends at {stream.next_offset}")
        present = current_snapshot(stream, view.get(stream_snapshot_key(self.path)))
        if present is not None and (
            self.committed_id < present.committed_id or self.offset.position < present.position
        ):
            raise BadRequest(f"there is a newer snapshot, at {present.committed_id}")
        view.put(
            stream_snapshot_key(self.path),
            StreamSnapshot(stream.topic, self.committed_id, self.offset.position, self.state, view.now_us),
        )


def current_snapshot(stream: StreamState, snapshot: StreamSnapshot | None) -> StreamSnapshot | None:
    """The snapshot, if it is of this life of the stream."""
    return snapshot if snapshot is not None and snapshot.topic == stream.topic else None
