"""Forks: a stream that shares another one's data up to a point, without a copy (protocol section 4.2)."""

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
    """PUT with Stream-Forked-From. `resolved` is where a sub-offset leads, found out by whoever has read the data."""

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
                f"the source holds {source.content_type}, this fork asks for {self.content_type}",
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
            raise SourceDeleted("the source was deleted; its data is kept only for the forks that it has")
        return lifecycle.check_alive(self.source_path, source, view.now_us, self.source_touched_us)

    def _position(self, source: StreamState, anchor: Offset) -> int:
        if anchor.read_seq != source.read_seq or anchor > source.next_offset:
            raise BadOffset(f"{anchor} is not an offset of the source, which ends at {source.next_offset}")
        if anchor.position < source.earliest:
            raise BadOffset(f"{anchor} is no longer kept; the source begins at {source.earliest_offset}")
        if self.resolved is None:
            return anchor.position
        topic, position = self.resolved
        if topic != source.topic:
            raise SourceDeleted("the source was replaced while the fork was made")
        return position

    def _lifetime(self, source: StreamState) -> Lifetime:
        """The fork's own TTL or expiry if it asks for one, else the source's."""
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
            raise StreamExists("the stream exists, and is not this fork")
        asks = self.lifetime.ttl_s is not None or self.lifetime.expires_at_us is not None
        check_same(old, self.content_type, self.lifetime if asks else None, self.closed)
        return Created(old, new=False)
