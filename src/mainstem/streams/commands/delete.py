"""Commands that delete and expire streams, and clean up afterwards."""

import msgspec

from mainstem.log.commands import Freeing, Key, Sizeless, View
from mainstem.log.records import Kind
from mainstem.streams.rules import lifecycle
from mainstem.streams.states import (
    Garbage,
    ProducerState,
    StreamSnapshot,
    StreamState,
    garbage_key,
    producer_key,
    retention_key,
    stream_key,
    stream_snapshot_key,
)

replace = msgspec.structs.replace


class Delete(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Delete a stream. It is gone immediately; the reaper erases its data later, in small steps."""

    path: str
    touched_us: int = 0

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> None:
        state = lifecycle.check_alive(self.path, view.get(stream_key(self.path)), view.now_us, self.touched_us)
        end_stream(view, self.path, state)


class Expire(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Delete a stream that has expired, unless it has been used in the meantime. Return whether it was deleted."""

    path: str
    touched_us: int = 0

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> bool:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or state.deleted or state.soft_deleted:
            return False
        if lifecycle.is_gone(state, view.now_us, self.touched_us) or lifecycle.is_soft_deleted(
            state, view.now_us, self.touched_us
        ):
            end_stream(view, self.path, state)
            return True
        if self.touched_us:
            Touch(self.path, self.touched_us).apply(view)
        return False


class Touch(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Make the last read of a stream with a sliding TTL durable."""

    path: str
    touched_us: int

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> None:
        key = stream_key(self.path)
        state: StreamState | None = view.get(key)
        if state is None or state.deleted or state.soft_deleted or state.ttl_s is None:
            return
        until = lifecycle.expiry_us(state, self.touched_us)
        if until != state.expires_at_us:
            view.put(key, replace(state, expires_at_us=until))


class PurgeStream(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Remove the remaining states of a deleted stream after its data was erased: its producers, its snapshot, and its
    reference to its origin."""

    garbage: Garbage
    producer_ids: tuple[str, ...]
    last: bool

    def needs(self) -> list[Key]:
        keys = [*self._producers(), garbage_key(self.garbage.topic), stream_snapshot_key(self.garbage.path)]
        if self.garbage.origin is not None:
            keys.append(stream_key(self.garbage.origin.path))
        return keys

    def _producers(self) -> list[Key]:
        return [producer_key(self.garbage.path, producer_id) for producer_id in self.producer_ids]

    def apply(self, view: View) -> None:
        for key in self._producers():
            known: ProducerState | None = view.get(key)
            if known is not None and known.topic == self.garbage.topic:
                view.put(key, None)
        if not self.last or view.get(garbage_key(self.garbage.topic)) is None:
            return
        view.put(garbage_key(self.garbage.topic), None)
        snapshot: StreamSnapshot | None = view.get(stream_snapshot_key(self.garbage.path))
        if snapshot is not None and snapshot.topic == self.garbage.topic:
            view.put(stream_snapshot_key(self.garbage.path), None)
        if self.garbage.origin is not None:
            self._release_origin(view)

    def _release_origin(self, view: View) -> None:
        """Count one fork less for the origin. Discard the origin too if it was deleted and this was its last fork."""
        origin = self.garbage.origin
        assert origin is not None
        state: StreamState | None = view.get(stream_key(origin.path))
        if state is None or state.topic != origin.topic:
            return
        state = replace(state, forks=state.forks - 1)
        view.put(stream_key(origin.path), state)
        if state.soft_deleted and state.forks == 0:
            _discard_stream(view, origin.path, state)


def end_stream(view: View, path: str, state: StreamState) -> None:
    """Delete a stream for clients. Its data is kept while forks read it."""
    view.append(Kind.DELETE, state.topic, state.tail, state.tail)
    if state.forks:
        view.put(stream_key(path), replace(state, soft_deleted=True))
    else:
        _discard_stream(view, path, state)


def _discard_stream(view: View, path: str, state: StreamState) -> None:
    """Replace the stream by a tombstone and mark its data for erasure. The tombstone keeps `read_seq`, so that an old
    offset never reads the data of a later incarnation."""
    tombstone = StreamState(
        state.topic,
        state.read_seq,
        state.content_type,
        0,
        state.created_at_us,
        deleted=True,
        pruned_id=state.pruned_id,
    )
    view.put(stream_key(path), tombstone)
    view.put(garbage_key(state.topic), Garbage(path, state.topic, state.origin))
    if state.retention is not None:
        view.put(retention_key(path), None)
