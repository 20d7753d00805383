"""Streams on the log: find them, keep them alive while they are read, and read pages of them."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

from mainstem import limits
from mainstem.errors import BadOffset, OffsetGone, StreamGone, StreamNotFound
from mainstem.log.commit import CommitLog
from mainstem.log.records import Chunk, TopicId
from mainstem.log.store.base import UNKNOWN
from mainstem.long_work import run_sized
from mainstem.streams.commands.trim import Trim
from mainstem.streams.reading.large_records import LargeRecords
from mainstem.streams.reading.page_cache import CachedPage, PageCache
from mainstem.streams.rules import content_types, json_mode, lifecycle
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.forks import count_sub_offset, segment_at
from mainstem.streams.rules.offsets import Offset, Sentinel
from mainstem.streams.rules.retention import find_before
from mainstem.streams.states import StreamState, stream_key

P = ParamSpec("P")
T = TypeVar("T")


class Page(msgspec.Struct, frozen=True, gc=False):
    """A part of a stream's data, as stored."""

    start: Offset
    end: Offset
    data: bytes
    up_to_date: bool
    closed: bool
    """Whether the stream is closed and this page reaches its end."""


class ForkPlan(msgspec.Struct, frozen=True, gc=False):
    """The point where a fork would branch off. `resolved` is set only if the data had to be read to find it."""

    anchor: Offset | None
    resolved: tuple[TopicId, int] | None
    content_type: str


class Streams:
    def __init__(self, log: CommitLog, page_bytes: int) -> None:
        self.log = log
        self.page_bytes = page_bytes
        self.touches: dict[str, int] = {}
        """Reads of streams with a sliding TTL that are not durable yet: maps a path to a time in microseconds."""
        self._live_readers: dict[str, int] = {}
        self.pages = PageCache()
        self._large = LargeRecords()

    # Keeping streams with a TTL alive

    def touched_us(self, path: str) -> int:
        """Return the time of the last read if it is not durable yet, or else 0. With a live reader, that is now."""
        if path in self._live_readers:
            return self.log.clock_us()
        return self.touches.get(path, 0)

    def touch(self, path: str, state: StreamState) -> None:
        if state.ttl_s is not None:
            self.touches[path] = self.log.clock_us()

    def add_live_reader(self, path: str) -> None:
        self._live_readers[path] = self._live_readers.get(path, 0) + 1

    def remove_live_reader(self, path: str, state: StreamState) -> None:
        self._live_readers[path] -= 1
        if not self._live_readers[path]:
            del self._live_readers[path]
        self.touch(path, state)

    def live_paths(self) -> list[str]:
        """Return the streams that have live readers on this node."""
        return list(self._live_readers)

    # Finding and reading

    async def find(self, path: str, topic: TopicId | None = None) -> StreamState:
        """Return the stream at a path; with a topic, only that incarnation of it. Raise an error if there is none."""
        key = stream_key(path)
        touched_us = self.touched_us(path)  # before the read: once durable, it is forgotten, and the state may be older
        state = await self.log.store.get(key)
        current = self.log.store.peek(key)
        if current is not UNKNOWN:
            # A save may have overtaken the read. A reader of the new stream does not keep an expired one alive.
            state = current
        state = lifecycle.check_alive(path, state, self.log.clock_us(), max(touched_us, self.touched_us(path)))
        if topic is not None and state.topic != topic:
            raise StreamNotFound(f"there is no stream at {path!r}")
        return state

    def peek(self, path: str) -> StreamState | None:
        """Return the stream at a path if that is known without waiting. None is no verdict: call `find`."""
        state = self.log.store.peek(stream_key(path))
        if state is UNKNOWN:
            return None
        try:
            return lifecycle.check_alive(path, state, self.log.clock_us(), self.touched_us(path))
        except (StreamNotFound, StreamGone):
            return None

    def resolve(self, state: StreamState, offset: Offset | Sentinel) -> Offset:
        """Return the offset at which a read begins. Raise an error if the stream does not have that offset."""
        if offset is Sentinel.BEGINNING:
            return state.earliest_offset
        if offset is Sentinel.NOW:
            return state.next_offset
        if offset < state.earliest_offset:
            raise _gone(offset, state.earliest_offset)
        if offset > state.next_offset:
            raise BadOffset(f"{offset} is beyond the end of the stream, {state.next_offset}")
        return offset

    async def plan_fork(self, path: str, offset: Offset | Sentinel | None, sub_offset: int) -> ForkPlan:
        """Resolve the fork point in the source. A missing source is not an error here: the command reports it."""
        state: StreamState | None = await self.log.store.get(stream_key(path))
        if state is None or state.deleted or state.soft_deleted:
            return ForkPlan(offset if isinstance(offset, Offset) else None, None, content_types.DEFAULT)
        anchor = None if offset is None else self.resolve(state, offset)
        if anchor is None or (not sub_offset and anchor == state.next_offset):
            return ForkPlan(anchor, None, state.content_type)
        record = b""
        if anchor.position < state.tail:
            record, _ = await self._read_records(state, anchor.position, 1)  # refuses an anchor within a message
        if not sub_offset:
            return ForkPlan(anchor, None, state.content_type)
        inherited = await _examine(record, count_sub_offset, state.content_type, record, sub_offset)
        return ForkPlan(anchor, (state.topic, anchor.position + inherited), state.content_type)

    async def read(self, state: StreamState, start: Offset, bytes_max: int | None = None) -> Page:
        """Read up to a page of data from `start`. Nothing after the end in `state` is visible."""
        size = self.page_bytes if bytes_max is None else bytes_max
        at = start.position
        parts: list[bytes] = []
        while at < state.tail and size > 0:
            if is_json(state.content_type):
                data, until = await self._read_records(state, at, size)
            else:
                data, until = await self._read_bytes(state, at, size)
            parts.append(data)
            at += len(data)
            size -= len(data)
            if at < until and is_json(state.content_type):  # the next message does not fit into this page
                break
        up_to_date = at == state.tail
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return Page(start, Offset(start.read_seq, at), data, up_to_date, state.closed and up_to_date)

    async def read_tail(self, state: StreamState, count: int) -> Page:
        """Read the last `count` messages, up to a page. Unlike other pages, it may end within a large record."""
        page = await self.read(state, await self.find_tail(state, count))
        if not is_json(state.content_type) or len(page.data) <= self.page_bytes:
            return page
        size = await _examine(page.data, json_mode.find_end, page.data, self.page_bytes)
        if size == len(page.data):
            return page
        end = Offset(page.start.read_seq, page.start.position + size)
        return msgspec.structs.replace(page, end=end, data=page.data[:size], up_to_date=False, closed=False)

    async def find_tail(self, state: StreamState, count: int) -> Offset:
        """Return where the last `count` messages begin, or in a stream of bytes, the last `count` appends."""
        until = state.tail
        while until > state.earliest:
            topic, segment_start = self._segment_before(state, until)
            records = await self.log.store.outline(topic, segment_start, until, count, newest_first=True)
            for record in records:
                start = max(record.start, segment_start)
                if record.messages < count and record.end <= until:
                    count -= record.messages
                elif is_json(state.content_type):
                    data, _ = await self._read_records(state, start, 1)
                    data = data[: until - start]
                    number = await _examine(data, json_mode.count_messages, data)
                    if number >= count:
                        inside = await _examine(data, json_mode.find_message, data, number - count)
                        assert inside is not None
                        return Offset(state.read_seq, start + inside)
                    count -= number
                elif count == 1:
                    return Offset(state.read_seq, start)
                else:
                    count -= 1
                until = start
            if not records:
                break
        return state.earliest_offset

    async def find_time(self, state: StreamState, time_us: int) -> tuple[Offset, int | None]:
        """Return where the first append at or after a time begins, and when it was committed. If there is none, return
        the end of the stream and None.

        This bisects positions, so it looks at few records. The append before the result is older than the time. If the
        clock of the server was ever set back, several appends may have that property, and the result is one of them.
        """
        low, high = state.earliest, state.tail
        found: tuple[Offset, int | None] = state.next_offset, None
        while low < high:
            middle = (low + high) // 2
            topic, segment_end = segment_at(state, middle)
            records = await self.log.store.outline(topic, middle, segment_end, 1)
            if not records:
                raise StreamNotFound("the stream was deleted while it was being read")
            record = records[0]
            if record.committed_at_us < time_us:
                low = min(record.end, segment_end)
            else:  # records before it may have been trimmed meanwhile
                high = min(record.start, middle)
                found = Offset(state.read_seq, max(record.start, state.earliest)), record.committed_at_us
        return found

    async def trim(self, path: str, offset: Offset) -> None:
        """Discard whole records before an offset, as retention does; the reaper erases them.

        Each step is durable, so a repeated call continues where an interrupted one stopped.
        """
        while True:
            state = await self.find(path)
            if offset.read_seq != state.read_seq or offset > state.next_offset:
                raise BadOffset(f"{offset} is not an offset of this stream, which ends at {state.next_offset}")
            oldest = await self.log.store.outline(
                state.topic, state.earliest, offset.position, limits.ERASE_RECORDS_MAX
            )
            gone = find_before(state, oldest, offset.position)
            if not gone:
                return
            messages = sum(record.messages for record in gone)
            now_us = self.log.clock_us()
            trim = Trim(path, state.topic, gone[-1].end, messages, now_us, gone[-1].committed_id)
            if not await self.log.submit(trim):  # forks still need the data
                return

    def _segment_before(self, state: StreamState, position: int) -> tuple[TopicId, int]:
        """Return the topic that holds the byte before a position, and the start of its segment."""
        start = 0
        for segment in state.lineage:
            if position <= segment.end:
                return segment.topic, max(start, state.earliest)
            start = segment.end
        return state.topic, max(start, state.earliest)

    async def _read_bytes(self, state: StreamState, at: int, size: int) -> tuple[bytes, int]:
        """Return up to `size` bytes from a position, which may end within a record, and the end of their segment."""
        topic, until = segment_at(state, at)
        chunk = self._large.find(topic, at)
        kept = chunk is not None
        if chunk is None:
            chunk = await self._read_chunk(state, topic, at, until, size)
        end = min(at + size, until, chunk.end)
        if kept and end == chunk.end:
            self._large.forget(topic)
        elif not kept and chunk.end - end >= limits.LARGE_RECORD_BYTES_MIN:
            self._large.keep(topic, chunk)
        if chunk.start == at and chunk.end == end:
            return chunk.data, until
        return chunk.data[at - chunk.start : end - chunk.start], until

    async def _read_records(self, state: StreamState, at: int, size: int) -> tuple[bytes, int]:
        """Return whole records from a position, about `size` bytes but at least one record, and the end of their
        segment."""
        topic, until = segment_at(state, at)
        chunk = await self._read_chunk(state, topic, at, until, size)
        if chunk.start == at and chunk.end <= until:
            return chunk.data, until
        inside = at - chunk.start
        if (
            inside
            and is_json(state.content_type)
            and not await _examine(chunk.data, json_mode.begins_message, chunk.data, inside)
        ):
            raise BadOffset(f"{Offset(state.read_seq, at)} is inside a message")
        return chunk.data[inside : until - chunk.start], until

    async def _read_chunk(self, state: StreamState, topic: TopicId, at: int, until: int, size: int) -> Chunk:
        """Return whole records, the first of which holds the byte at `at`."""
        live = self.log.live
        chunk = live.read(topic, at, size) or live.read_newest(topic, at, until)
        if chunk is None:
            chunk = await self.log.store.read(topic, at, until, size)
        if chunk is None:
            raise StreamNotFound("the stream was deleted while it was being read")
        if chunk.start > at:
            raise _gone(Offset(state.read_seq, at), Offset(state.read_seq, chunk.start))
        return chunk


class StreamSource:
    """One incarnation of a stream, for its live readers."""

    __slots__ = ("content_type", "key", "name", "state", "streams")

    def __init__(self, streams: Streams, path: str, state: StreamState) -> None:
        self.streams = streams
        self.name = path
        self.state = state
        self.content_type = state.content_type
        self.key = state.topic

    @property
    def in_memory(self) -> bool:
        return self.streams.log.store.peek(stream_key(self.name)) is not UNKNOWN

    def copy(self) -> "StreamSource":
        return StreamSource(self.streams, self.name, self.state)

    def add_reader(self) -> None:
        self.streams.add_live_reader(self.name)

    def remove_reader(self) -> None:
        self.streams.remove_live_reader(self.name, self.state)

    @property
    def tail(self) -> tuple[Offset, bool]:
        return self.state.next_offset, self.state.closed

    async def refresh(self) -> tuple[Offset, bool]:
        self.state = await self.streams.find(self.name, self.key)
        return self.tail

    def find_page(self, start: Offset, accepts: str | None) -> CachedPage | None:
        return self.streams.pages.find(self.key, start.position, accepts, self.state.tail)

    def keep_page(self, start: Offset, accepts: str | None, page: CachedPage) -> None:
        self.streams.pages.keep(self.key, start.position, accepts, page)

    async def read(self, at: Offset, bytes_max: int) -> Page:
        return await self.streams.read(self.state, at, bytes_max)


def _gone(offset: Offset, earliest: Offset) -> OffsetGone:
    return OffsetGone(
        f"the data at {offset} is no longer kept; the stream now begins at {earliest}",
        headers={"Stream-Earliest-Offset": str(earliest)},
        earliest_offset=str(earliest),
    )


async def _examine(data: bytes, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that parses stored data, in a thread if the data is large."""
    return await run_sized(len(data), limits.PARSE_INLINE_BYTES_MAX, work, *args, **kwargs)
