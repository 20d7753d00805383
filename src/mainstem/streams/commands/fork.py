"""The command that forks a stream: the fork shares the beginning of its source without a copy (protocol section
4.2)."""

import msgspec

from mainstem.errors import BadOffset, ContentTypeMismatch, SourceDeleted, StreamExists
from mainstem.log.commands import Key, View
from mainstem.log.records import TopicId
from mainstem.streams.commands.create import Created, Lifetime, begin_stream, check_path_free, check_same, write_initial
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.content_types import media_type
from mainstem.streams.rules.forks import inherit
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import Origin, StreamState, stream_key


class Fork(msgspec.Struct, frozen=True, gc=False):
    """Create a fork, or confirm that it already exists. `resolved` is the position of a sub-offset, which the caller
    has found by reading the source."""

    path: str
    source_path: str
    content_type: str | None
    anchor: Offset | None
    sub_offset: int
    resolved: tuple[TopicId, int] | None
    messages: Messages = NOTHING
    closed: bool = False
    lifetime: Lifetime = Lifetime()
    touched_us: int = 0
    source_touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.messages.data)

    def needs(self) -> list[Key]:
        return [stream_key(self.path), stream_key(self.source_path)]

    def apply(self, view: View) -> Created:
        old: StreamState | None = view.get(stream_key(self.path))
        if old is not None and not lifecycle.is_gone(old, view.now_us, self.touched_us):
            check_path_free(old, view.now_us, self.touched_us)
            return self._confirm(old)
        source = self._source(view)
        if self.content_type is not None and media_type(self.content_type) != media_type(source.content_type):
            raise ContentTypeMismatch(
                f"the source has the content type {source.content_type}, but the fork was requested as "
                f"{self.content_type}; omit Content-Type or send that of the source",
                stream_content_type=source.content_type,
            )
        anchor = source.next_offset if self.anchor is None else self.anchor
        position = self._position(source, anchor)
        state = begin_stream(
            view,
            self.path,
            self.content_type or source.content_type,
            self._lifetime(source),
            read_seq_min=source.read_seq,
            position=position,
        )
        state = msgspec.structs.replace(
            state,
            origin=Origin(self.source_path, source.topic, anchor.position, self.sub_offset),
            lineage=inherit(source, position),
            earliest=min(source.earliest, position),
        )
        view.put(stream_key(self.source_path), msgspec.structs.replace(source, forks=source.forks + 1))
        return Created(write_initial(view, self.path, state, self.messages, self.closed), new=True)

    def _source(self, view: View) -> StreamState:
        source: StreamState | None = view.get(stream_key(self.source_path))
        if source is not None and lifecycle.is_soft_deleted(source, view.now_us, self.source_touched_us):
            raise SourceDeleted(
                f"the source {self.source_path!r} was deleted; its data is kept for existing forks only"
            )
        return lifecycle.check_alive(self.source_path, source, view.now_us, self.source_touched_us)

    def _position(self, source: StreamState, anchor: Offset) -> int:
        if anchor.read_seq != source.read_seq or anchor > source.next_offset:
            raise BadOffset(f"{anchor} is not an offset of the source, which ends at {source.next_offset}")
        if anchor.position < source.earliest:
            raise BadOffset(f"the data at {anchor} is no longer kept; the source begins at {source.earliest_offset}")
        if self.resolved is None:
            return anchor.position
        topic, position = self.resolved
        if topic != source.topic:
            raise SourceDeleted(f"the source {self.source_path!r} was deleted and created again during this request")
        return position

    def _lifetime(self, source: StreamState) -> Lifetime:
        """Return the requested TTL or expiry, or else that of the source."""
        if self.lifetime.ttl_s is not None or self.lifetime.expires_at_us is not None:
            return self.lifetime
        if source.ttl_s is not None:
            return Lifetime(ttl_s=source.ttl_s)
        return Lifetime(expires_at_us=source.expires_at_us, expires_at_text=source.expires_at_text)

    def _confirm(self, old: StreamState) -> Created:
        origin = old.origin
        if (
            origin is None
            or origin.path != self.source_path
            or origin.sub_offset != self.sub_offset
            or (self.anchor is not None and origin.anchor != self.anchor.position)
        ):
            raise StreamExists(f"the stream at {self.path!r} already exists and is not this fork")
        asks = self.lifetime.ttl_s is not None or self.lifetime.expires_at_us is not None
        check_same(self.path, old, self.content_type, self.lifetime if asks else None, self.closed)
        return Created(old, new=False)
