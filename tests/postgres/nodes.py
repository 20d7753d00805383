"""Nodes of one log within this process: stores with a committer each, which record what they publish."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from mainstem.checks.log import check_head, check_runs
from mainstem.log.commands import Key, Space, State, View
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.records import Kind, Record, TopicId
from mainstem.log.store.postgres.snapshot import open_snapshot
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.server.app import wall_clock_us

WAIT_S_MAX = 10.0
TOPIC = TopicId(7)


class Counter(msgspec.Struct, frozen=True):
    number: int = 0
    due_us: int | None = None


COUNTERS: Space[Counter] = Space(901, Counter, due=lambda counter: counter.due_us)
ONCE: Space[Counter] = Space(902, Counter, cached=False)


class Add(msgspec.Struct, frozen=True):
    """Increment a named counter, and append its old value to the topic."""

    name: str
    origin: int = 0
    size: int = 0

    def needs(self) -> list[Key]:
        return [Key(COUNTERS, self.name), Key(COUNTERS, "tail")]

    def apply(self, view: View) -> int:
        counter = view.get(Key(COUNTERS, self.name)) or Counter()
        tail = view.get(Key(COUNTERS, "tail")) or Counter()
        data = f"{self.name}:{counter.number},".encode()
        end = tail.number + len(data)
        tags = (self.name,) if self.origin else ()
        view.append(Kind.APPEND, TOPIC, tail.number, end, 1, data, tags=tags, origin=self.origin)
        view.put(Key(COUNTERS, self.name), Counter(counter.number + 1))
        view.put(Key(COUNTERS, "tail"), Counter(end))
        return counter.number


class Limited(msgspec.Struct, frozen=True):
    """Increment a counter if it has the expected value; otherwise change nothing."""

    name: str
    expected: int = 0
    size: int = 0

    def needs(self) -> list[Key]:
        return Add(self.name).needs()

    def apply(self, view: View) -> int | None:
        counter = view.get(Key(COUNTERS, self.name)) or Counter()
        return Add(self.name).apply(view) if counter.number == self.expected else None


class TakeOnce(msgspec.Struct, frozen=True):
    """Take a name: only the first command gets it, on whichever node."""

    name: str
    size: int = 0

    def needs(self) -> list[Key]:
        return [Key(ONCE, self.name)]

    def apply(self, view: View) -> bool:
        if view.get(Key(ONCE, self.name)) is not None:
            return False
        view.put(Key(ONCE, self.name), Counter(1))
        return True


class Node:
    """One node. `told` has the records that it has published, `changes` the states."""

    def __init__(self, url: str, clock_us: Callable[[], int] = wall_clock_us) -> None:
        self.store = PostgresStore(url)
        self.live = Live()
        self.clock_us = clock_us
        self.told: list[Record] = []
        self.changes: list[dict[Key, State | None]] = []
        self.resets = 0
        self._news = asyncio.Event()

    async def open(self) -> None:
        await self.store.open()
        self.log = CommitLog(self.store, self.live, self.store.clock(self.clock_us))
        self.log.observers.append(self._observe)
        self.log.resets.append(self._reset)
        self.log.start()

    async def close(self) -> None:
        await self.log.stop()
        await self.store.close()

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        self.told += records
        self.changes.append(dict(changes))
        self._news.set()

    def _reset(self) -> None:
        self.resets += 1

    async def hear(self, committed_id: int) -> None:
        """Wait until this node has published everything up to an id."""
        async with asyncio.timeout(WAIT_S_MAX):
            while self.store.head < committed_id:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def open_nodes(url: str, number: int = 2, clocks: Sequence[Callable[[], int]] = ()) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for at in range(number):
            node = Node(url, clocks[at] if clocks else wall_clock_us)
            await node.open()
            stack.push_async_callback(node.close)
            nodes.append(node)
        yield nodes


async def find_violations(url: str) -> list[str]:
    """Run only the rules that know no protocol: these nodes have topics and states that no protocol has."""
    return await asyncio.to_thread(_find_violations, url)


def _find_violations(url: str) -> list[str]:
    with open_snapshot(url) as snapshot:
        findings = (*check_head(snapshot), *snapshot.check_storage(), *check_runs(snapshot))
        return [finding.detail for finding in findings]
