"""Live reads: wake-ups, the newest data of each watched topic in memory, and frames that are encoded only once.

Everything here runs on the event loop after the commit, so readers never see data that could still be lost.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol

from mainstem import limits
from mainstem.log.records import Chunk, Kind, Record, TopicId
from mainstem.metrics.catalogue import Metrics
from mainstem.shares import Shares

APPEND = Kind.APPEND  # looking up a member of an enum takes longer than the rest of a comparison
WHOLE_LOG = ""
"""The name that a reader of the whole log watches. No tag is empty."""
OnWait = Callable[["asyncio.Future[bool]"], None]
"""Receives the future of a wait, so that it can end the wait early, for example when the client disconnects."""


class WakeableGroup(Protocol):
    """Readers that wait for the same data, without a task each."""

    def wake(self) -> None:
        """Look for new data soon. Must not raise an error, because the committer calls it."""


class Topic:
    """A topic or tag that has watchers, or had some a moment ago."""

    __slots__ = ("_chunks", "frames", "groups", "size", "version", "waiters", "watchers")

    def __init__(self) -> None:
        self.size = 0
        self.watchers = 0
        self.version = 0
        """Grows with every wake-up. Read it before the state, then wait until it differs."""
        self._chunks: deque[Chunk] = deque()
        self.waiters: dict[asyncio.Future[bool], None] = {}
        """Those who wait, the first one first."""
        self.groups: dict[Hashable, WakeableGroup] = {}
        """The groups of waiting readers, by what their readers have in common."""
        self.frames: dict[Hashable, Any] = {}
        """What readers have encoded since the last wake-up, so that the other readers can send the same bytes."""

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
        for group in self.groups.values():
            group.wake()

    def read(self, start: int, bytes_max: int) -> Chunk | None:
        """Return data from exactly `start`, if it is still in memory."""
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
    """Wait until the version of a topic differs from `seen`; return False if the wait ended for another reason."""
    if _have_changed(topics, seen):
        return True
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[bool] = loop.create_future()
    timer = loop.call_later(timeout_s, wake_waiter, waiter)
    on_wait(waiter)
    for topic in topics:
        topic.waiters[waiter] = None
    try:
        return await waiter or _have_changed(topics, seen)
    finally:
        timer.cancel()
        for topic in topics:
            topic.waiters.pop(waiter, None)


def _have_changed(topics: Sequence[Topic], seen: Sequence[int]) -> bool:
    for topic, version in zip(topics, seen, strict=True):  # noqa: SIM110 - twice as fast as any(), once per wake-up
        if topic.version != version:
            return True
    return False


def wake_waiter(waiter: "asyncio.Future[bool]", changed: bool = False) -> None:
    if not waiter.done():
        waiter.set_result(changed)


class Live:
    """The watched topics and tags, and the topics that received data a moment ago."""

    def __init__(self, shares: Shares | None = None, metrics: Metrics | None = None) -> None:
        self.shares = shares or Shares()
        self.metrics = metrics or Metrics()
        self._topics: dict[TopicId | str, Topic] = {}
        self._recent: OrderedDict[TopicId | str, None] = OrderedDict()  # those with chunks, the most recent last
        self._size = 0
        self._newest: dict[TopicId, Record] = {}
        self.readers = 0
        self.closing = False

    def publish(self, records: Sequence[Record]) -> None:
        """Wake the readers of records that have just become durable, and keep their data in memory for a while."""
        topics = self._topics
        if topics:
            self._wake(records)
        appends = {record.topic: record for record in records if record.kind is APPEND and record.topic not in topics}
        self._keep_newest(appends)

    def _keep_newest(self, records: Mapping[TopicId, Record]) -> None:
        """Keep the newest records of topics that nobody watches, if they are small."""
        newest = self._newest
        for name, record in records.items():
            newest.pop(name, None)  # so that the oldest come first
            if len(record.data) <= limits.NEWEST_RECORD_BYTES_MAX:
                newest[name] = record
        surplus = len(newest) - limits.NEWEST_RECORDS_MAX
        if surplus > 0:
            for name in list(islice(newest, surplus + limits.NEWEST_RECORDS_MAX // 8)):
                del newest[name]

    def _wake(self, records: Sequence[Record]) -> None:
        """Keep the data of watched topics, and wake those who watch these topics or their tags."""
        topics = self._topics
        woken: dict[TopicId | str, None] = {WHOLE_LOG: None} if WHOLE_LOG in topics else {}
        for record in records:
            for tag in record.tags:
                if tag in topics:
                    woken[tag] = None
            topic = topics.get(record.topic)
            if topic is None:
                continue
            if record.kind is APPEND:
                before = topic.size
                topic.add(Chunk(record.start, record.end, record.data))
                self._size += topic.size - before
                self._recent[record.topic] = None
                self._recent.move_to_end(record.topic)
            woken[record.topic] = None
        for name in woken:
            topics[name].wake()
        while self._size > limits.HOT_BYTES_MAX or len(self._recent) > limits.TOPICS_HOT_MAX:
            self._evict(self._recent.popitem(last=False)[0])

    def watched_topics(self) -> list[TopicId]:
        """Return the topics that have readers, or had some a moment ago."""
        return [name for name in self._topics if isinstance(name, int)]

    def _evict(self, name: TopicId | str) -> None:
        topic = self._topics[name]
        self._size -= topic.size
        topic.clear()
        if topic.watchers == 0:
            del self._topics[name]

    @contextmanager
    def watch(self, name: TopicId | str) -> Iterator[Topic]:
        """Watch a topic or a tag for the duration of a `with` block."""
        topic = self.add_reader(name)
        try:
            yield topic
        finally:
            self.remove_reader(name)

    def add_reader(self, name: TopicId | str) -> Topic:
        """Watch a topic or a tag. While it is watched, a topic's new data is kept in memory for a while."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic()
        topic.watchers += 1
        self.readers += 1
        return topic

    def remove_reader(self, name: TopicId | str) -> None:
        self.readers -= 1
        topic = self._topics[name]
        topic.watchers -= 1
        if topic.watchers == 0 and name not in self._recent:
            del self._topics[name]

    def read(self, name: TopicId, start: int, bytes_max: int) -> Chunk | None:
        """Return a topic's data from exactly `start`, if it is still in memory."""
        topic = self._topics.get(name)
        return None if topic is None else topic.read(start, bytes_max)

    def read_newest(self, name: TopicId, start: int, end: int) -> Chunk | None:
        """Return the newest record of a topic that nobody watches, if it has exactly these bounds."""
        record = self._newest.get(name)
        if record is None or record.start != start or record.end != end:
            return None
        return Chunk(start, end, record.data)

    def release(self) -> None:
        """Wake all readers for shutdown, so that they end their responses."""
        self.closing = True
        for topic in self._topics.values():
            topic.wake()
