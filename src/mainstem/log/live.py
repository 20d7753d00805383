"""Who is waiting for what: wake-ups, the hot tail of each watched topic, and frames that are encoded once.

Everything here runs on the event loop, after the durable step, so a wake-up never tells of what could still be lost.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mainstem import limits
from mainstem.log.records import Chunk, Kind, Record, TopicId
from mainstem.shares import Shares

WHOLE_LOG = ""
"""What a reader of the whole log watches. No tag is empty."""
OnWait = Callable[["asyncio.Future[bool]"], None]
"""Called with the future of a wait, to end the wait for another reason (the client disconnected)."""


class Topic:
    """A topic that somebody watches, or watched a moment ago."""

    __slots__ = ("_chunks", "frames", "size", "version", "waiters", "watchers")

    def __init__(self) -> None:
        self.size = 0
        self.watchers = 0
        self.version = 0
        """Raised with every wake-up: read it before the state, then wait for more than it."""
        self._chunks: deque[Chunk] = deque()
        self.waiters: set[asyncio.Future[bool]] = set()
        self.frames: dict[Hashable, Any] = {}
        """What readers encoded since the last wake-up, so that all others can send the same bytes."""

    def add(self, chunk: Chunk) -> None:
        if self._chunks and self._chunks[-1].end != chunk.start:
            self.clear()
        self._chunks.append(chunk)
        self.size += len(chunk.data)
        while self.size > limits.TOPIC_HOT_BYTES_MAX:
            self.size -= len(self._chunks.popleft().data)

    def clear(self) -> None:
        self._chunks.clear()
        self.size = 0

    def wake(self) -> None:
        self.version += 1
        self.frames.clear()
        for waiter in self.waiters:
            wake_waiter(waiter, changed=True)
        self.waiters.clear()

    def read(self, start: int, bytes_max: int) -> Chunk | None:
        """A run from exactly `start`, if it is still in memory."""
        run: list[Chunk] = []
        for chunk in reversed(self._chunks):
            run.append(chunk)
            if chunk.start <= start:
                break
        else:
            return None
        if chunk.start != start:
            return None
        run.reverse()
        while len(run) > 1 and run[-1].end - start > bytes_max:
            run.pop()
        return Chunk(start, run[-1].end, b"".join(chunk.data for chunk in run))


async def wait_for_change(topics: Sequence[Topic], seen: Sequence[int], timeout_s: float, on_wait: OnWait) -> bool:
    """Wait until one of the topics has another version than `seen`; False if the wait ended without that."""
    if _have_changed(topics, seen):
        return True
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[bool] = loop.create_future()
    timer = loop.call_later(timeout_s, wake_waiter, waiter)
    on_wait(waiter)
    for topic in topics:
        topic.waiters.add(waiter)
    try:
        return await waiter or _have_changed(topics, seen)
    finally:
        timer.cancel()
        for topic in topics:
            topic.waiters.discard(waiter)


def _have_changed(topics: Sequence[Topic], seen: Sequence[int]) -> bool:
    for topic, version in zip(topics, seen, strict=True):  # noqa: SIM110 - twice as fast as any(), once per wake-up
        if topic.version != version:
            return True
    return False


def wake_waiter(waiter: "asyncio.Future[bool]", changed: bool = False) -> None:
    if not waiter.done():
        waiter.set_result(changed)


class Live:
    """The watched topics, and those that were published to a moment ago."""

    def __init__(self, shares: Shares | None = None) -> None:
        self.shares = shares or Shares()
        self._topics: dict[TopicId | str, Topic] = {}
        self._recent: OrderedDict[TopicId | str, None] = OrderedDict()  # those with chunks, last published last
        self._size = 0
        self.readers = 0
        self.closing = False

    def publish(self, records: Iterable[Record]) -> None:
        """Tell of records that just became durable, in order."""
        topics = self._topics
        if not topics:
            return
        woken: set[TopicId | str] = {WHOLE_LOG} if WHOLE_LOG in topics else set()
        for record in records:
            for tag in record.tags:
                if tag in topics:
                    woken.add(tag)
            topic = topics.get(record.topic)
            if topic is None:
                continue
            if record.kind is Kind.APPEND:
                before = topic.size
                topic.add(Chunk(record.start, record.end, record.data))
                self._size += topic.size - before
                self._recent[record.topic] = None
                self._recent.move_to_end(record.topic)
            woken.add(record.topic)
        for name in woken:
            topics[name].wake()
        while self._size > limits.HOT_BYTES_MAX or len(self._recent) > limits.TOPICS_HOT_MAX:
            self._evict(self._recent.popitem(last=False)[0])

    def watched_topics(self) -> list[TopicId]:
        """The topics that somebody watches, or watched a moment ago."""
        return [name for name in self._topics if isinstance(name, int)]

    def _evict(self, name: TopicId | str) -> None:
        topic = self._topics[name]
        self._size -= topic.size
        topic.clear()
        if topic.watchers == 0:
            del self._topics[name]

    @contextmanager
    def watch(self, name: TopicId | str) -> Iterator[Topic]:
        """Stay on a topic, or on a tag: from now on a topic's new records are kept in memory for a while."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic()
        topic.watchers += 1
        self.readers += 1
        try:
            yield topic
        finally:
            self.readers -= 1
            topic.watchers -= 1
            if topic.watchers == 0 and name not in self._recent and self._topics.get(name) is topic:
                del self._topics[name]

    def read(self, name: TopicId, start: int, bytes_max: int) -> Chunk | None:
        """A run of a topic's data from exactly `start`, if it is still in memory."""
        topic = self._topics.get(name)
        return None if topic is None else topic.read(start, bytes_max)

    def release(self) -> None:
        """Shutting down: wake everybody, so that they end their responses."""
        self.closing = True
        for topic in self._topics.values():
            topic.wake()
