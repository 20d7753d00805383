"""The command that stores a snapshot of a JSON stream. A snapshot belongs to one incarnation of the stream."""

import msgspec

from mainstem.errors import BadOffset, BadRequest, ContentTypeMismatch
from mainstem.log.commands import Key, View
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamSnapshot, StreamState, stream_key, stream_snapshot_key


class PutStreamSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Store a snapshot of a stream up to a committed id. It must not be older than the current snapshot."""

    path: str
    committed_id: int
    offset: Offset
    """The start of the first message that is not in the snapshot."""
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
            raise ContentTypeMismatch(
                f"only JSON streams can have snapshots, and {self.path!r} has the content type {stream.content_type}"
            )
        if not 0 <= self.committed_id <= view.head:
            raise BadRequest(f"committed_id must be 0 to {view.head}, the head of the log, not {self.committed_id}")
        if self.offset.read_seq != stream.read_seq or self.offset > stream.next_offset:
            raise BadOffset(f"{self.offset} is not an offset of this stream, which ends at {stream.next_offset}")
        present = current_snapshot(stream, view.get(stream_snapshot_key(self.path)))
        if present is not None and (
            self.committed_id < present.committed_id or self.offset.position < present.position
        ):
            raise BadRequest(
                f"this snapshot is older than the current one, which reaches committed_id {present.committed_id}"
            )
        view.put(
            stream_snapshot_key(self.path),
            StreamSnapshot(stream.topic, self.committed_id, self.offset.position, self.state, view.now_us),
        )


def current_snapshot(stream: StreamState, snapshot: StreamSnapshot | None) -> StreamSnapshot | None:
    """Return the snapshot if it belongs to this incarnation of the stream."""
    return snapshot if snapshot is not None and snapshot.topic == stream.topic else None
