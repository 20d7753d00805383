"""Streams on the log: finding them, keeping them alive while they are read, and reading a page of them."""

import msgspec

from mainstem.errors import BadOffset, OffsetGone, StreamNotFound
from mainstem.log.commit import CommitLog
from mainstem.log.records import TopicId
from mainstem.streams import lifecycle
from mainstem.streams.content_types import is_json
from mainstem.streams.offsets import Offset, Sentinel
from mainstem.streams.states import StreamState, stream_key


class Page(msgspec.Struct, frozen=True, gc=False):
    """Some of a stream's data, as stored."""

    start: Offset
    end: Offset
    data: bytes
    up_to_date: bool
    closed: bool
    """The stream is closed, and this page reaches its end."""


class Streams:
    def __init__(self, log: CommitLog, page_bytes: int) -> None:
        self.log = log
        self.page_bytes = page_bytes
        self.touches: dict[str, int] = {}
        """Reads of streams with a sliding TTL that are not durable yet: path -> time in microseconds."""
        self._watched: dict[str, int] = {}

    # Keeping streams with a TTL alive

    def touched_us(self, path: str) -> int:
        """When the stream was last read, as far as that is not durable yet. A live reader is reading now."""
        if path in self._watched:
            return self.log.clock_us()
        return self.touches.get(path, 0)

    def touch(self, path: str, state: StreamState) -> None:
        if state.ttl_s is not None:
            self.touches[path] = self.log.clock_us()

    def begin_watch(self, path: str) -> None:
        self._watched[path] = self._watched.get(path, 0) + 1

    def end_watch(self, path: str, state: StreamState) -> None:
        self._watched[path] -= 1
        if not self._watched[path]:
            del self._watched[path]
        self.touch(path, state)

    # Finding and reading

    async def find(self, path: str, topic: TopicId | None = None) -> StreamState:
        """The stream at a path; with a topic, only that life of it."""
        state: StreamState | None = await self.log.store.get(stream_key(path))
        if (
            state is None
            or lifecycle.is_gone(state, self.log.clock_us(), self.touched_us(path))
            or (topic is not None and state.topic != topic)
        ):
            raise StreamNotFound(f"there is no stream at {path!r}")
        return state

    def resolve(self, state: StreamState, offset: Offset | Sentinel) -> Offset:
        """Where a read begins."""
        if offset is Sentinel.BEGINNING:
            return Offset(state.read_seq, 0)
        if offset is Sentinel.NOW:
            return state.next_offset
        if offset.read_seq < state.read_seq:
            earliest = str(Offset(state.read_seq, 0))
            raise OffsetGone(
                "this offset belongs to a stream that was deleted; another one lives at this path now",
                headers={"Stream-Earliest-Offset": earliest},
                earliest_offset=earliest,
            )
        if offset > state.next_offset:
            raise BadOffset(f"{offset} lies beyond the end of the stream, {state.next_offset}")
        return offset

    async def read(self, state: StreamState, start: Offset, bytes_max: int | None = None) -> Page:
        """Data from `start` on, up to a page. `state` fixes what is visible: nothing behind its tail is shown."""
        position = start.position
        data = b""
        if position < state.tail:
            size = self.page_bytes if bytes_max is None else bytes_max
            chunk = self.log.live.read(state.topic, position, size) or await self.log.store.read(
                state.topic, position, state.tail, size
            )
            if chunk is None:
                raise StreamNotFound("the stream was deleted while it was read")
            if chunk.start != position and is_json(state.content_type):
                raise BadOffset(f"{start} lies within a message")
            data = chunk.data
            if chunk.start != position or chunk.end > state.tail:
                data = data[position - chunk.start : state.tail - chunk.start]
            if len(data) > size and not is_json(state.content_type):
                data = data[:size]
        end = Offset(start.read_seq, position + len(data))
        up_to_date = end.position == state.tail
        return Page(start, end, data, up_to_date, state.closed and up_to_date)
