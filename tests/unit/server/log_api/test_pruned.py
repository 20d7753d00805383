"""What was pruned of a selection: exact for the streams and partitions that it reads, whatever else is pruned."""

from contextlib import asynccontextmanager

import pytest

from mainstem import limits
from mainstem.errors import StoreFailed
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import CommittedId
from mainstem.log.store import MemoryStore
from mainstem.server.log_api.pruned import PrunedIds
from mainstem.server.log_api.selection import Selection
from mainstem.streams.commands.create import Create
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.trim import Trim
from mainstem.streams.states import STREAMS, stream_key
from mainstem.sync.commands import Item, RaiseFloors, Submit
from mainstem.sync.pruner import Pruner
from mainstem.testing.clock import FakeClock
from tests.support.book import TEXT, append, text


class Store(MemoryStore):
    """Counts the pages that are scanned."""

    def __init__(self):
        super().__init__()
        self.scans = []
        self.failing = False

    async def scan(self, space, prefix, after, limit):
        if self.failing:
            raise StoreFailed("the disk failed")
        if limit == limits.SCAN_PAGE:
            self.scans.append((space, prefix))
        return await super().scan(space, prefix, after, limit)


class Bench:
    def __init__(self, log):
        self.log = log
        self.store = log.store
        self.pruned = PrunedIds(log)

    async def create(self, *paths):
        """Create streams of two records each; return the id of the first record of each."""
        ids = []
        for path in paths:
            await self.log.submit(Create(path, TEXT, text(b"0123456789")))
            ids.append(self.store.head)
            await self.log.submit(append(b"0123456789", path=path))
        return ids if len(ids) > 1 else ids[0]

    async def trim(self, path, last_id):
        state = await self.store.get(stream_key(path))
        assert await self.log.submit(Trim(path, state.topic, 10, 1, 0, last_id))

    async def submit(self, event_id, *partitions):
        (result,) = await self.log.submit(Submit((Item(event_id, partitions, b"{}", b"digest"),), "c"))
        return result.committed_id

    async def prune(self, **floors):
        await self.log.submit(RaiseFloors(tuple(floors.items())))
        await Pruner(self.log).round()

    async def find(self, *streams, **filters):
        return await self.pruned.find(Selection(streams=streams, **filters))


@asynccontextmanager
async def bench():
    log = CommitLog(Store(), Live(), FakeClock())
    log.start()
    bench = Bench(log)
    try:
        yield bench
    finally:
        bench.pruned.stop()
        await log.stop()


async def test_only_the_streams_and_partitions_of_a_selection_count():
    async with bench() as b:
        a, c = await b.create("a/x", "c/x")
        e, f = await b.submit("e", "p"), await b.submit("f", "q")
        assert await b.find() == 0
        await b.trim("a/x", a)
        await b.trim("c/x", c)
        await b.prune(p=b.store.head)
        assert await b.find() == e
        assert [await b.find(glob) for glob in ("a/x", "a/*", "a/**", "a", "**", "d/**")] == [a, a, a, 0, c, 0]
        assert await b.find("a/x", "c/x") == await b.find("*/x", "c/*") == c
        assert [await b.find(prefix=prefix) for prefix in ("a", "c/", "b")] == [a, c, 0]
        assert await b.find("**", prefix="a") == a
        assert [await b.find(partitions=names) for names in (("p",), ("q",), ("p", "q"))] == [e, 0, e]
        assert (await b.find(kind="stream"), await b.find(kind="event")) == (c, e)
        await b.prune(q=b.store.head)
        assert await b.find(partitions=("q",)) == await b.find(kind="event") == f


async def test_a_floor_beyond_the_last_event_prunes_no_more_than_the_events():
    async with bench() as b:
        first = await b.submit("e", "p")
        await b.create("a")
        await b.prune(p=b.store.head)
        assert await b.find(partitions=("p",)) == first


async def test_an_event_counts_for_each_of_its_partitions_once_it_is_erased():
    async with bench() as b:
        shared, own = await b.submit("e", "p", "q"), await b.submit("f", "p")
        await b.prune(p=b.store.head)  # q still needs the first event
        assert await b.find(partitions=("p",)) == own
        assert await b.find(partitions=("q",)) == 0
        await b.prune(q=shared)
        assert await b.find(partitions=("q",)) == shared


@pytest.mark.parametrize("glob", ["a/x", "a/*"])
async def test_a_stream_that_is_trimmed_and_then_deleted_no_longer_counts(glob):
    async with bench() as b:
        x, y = await b.create("a/x", "a/y")
        await b.trim("a/x", x)
        assert await b.find(glob) == x
        await b.trim("a/y", y)
        assert await b.find("a/*") == y
        await b.log.submit(Delete("a/y"))
        assert (await b.find("a/y"), await b.find("a/*"), await b.find()) == (0, x, y)
        await b.log.submit(Delete("a/x"))
        assert await b.find(glob) == 0
        again = await b.create("a/x")
        assert await b.find(glob) == 0
        await b.trim("a/x", again)
        assert await b.find(glob) == again


async def test_an_answer_is_kept_up_to_date_without_another_scan():
    async with bench() as b:
        x, y = await b.create("a/x", "a/y")
        await b.trim("a/x", x)
        assert await b.find("a/*") == x
        assert b.store.scans == [(STREAMS, "a"), (STREAMS, "a")]  # a page, and the empty one after it
        await b.trim("a/y", y)
        for _ in range(3):
            assert await b.find("a/*") == y
        assert len(b.store.scans) == 2


async def test_a_scan_that_fails_leaves_no_answer():
    async with bench() as b:
        await b.trim("a/x", x := await b.create("a/x"))
        b.store.failing = True
        with pytest.raises(StoreFailed):
            await b.find("a/*")
        b.store.failing = False
        assert await b.find("a/*") == x


async def test_the_number_of_answers_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "PRUNED_SELECTIONS_MAX", 2)
    async with bench() as b:
        await b.trim("a/x", x := await b.create("a/x"))
        for glob in ("a/*", "a/**", "a/*", "*/x"):  # the last one takes the place of a/**
            assert await b.find(glob) == x
        before = len(b.store.scans)
        assert await b.find("a/*") == x
        assert len(b.store.scans) == before
        assert await b.find("a/**") == x
        assert len(b.store.scans) > before


async def test_what_an_older_version_pruned_counts_for_every_selection():
    async with bench() as b:
        b.store._states[PRUNED_KEY] = Pruned(CommittedId(40), CommittedId(40))
        for _ in range(50):
            await b.create("a/x")
            await b.log.submit(Delete("a/x"))
        x = await b.create("a/x")
        assert await b.find("a/x") == await b.find("*") == await b.find(partitions=("p",)) == 40
        await b.trim("a/x", x)
        assert (await b.find("a/x"), await b.find(partitions=("p",)), await b.find()) == (x, 40, x)
