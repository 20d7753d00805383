import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainstem.errors import StreamNotFound
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.log.store.base import UNKNOWN
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.commands.fork import Fork
from mainstem.streams.reading.reader import Streams
from mainstem.streams.reaper import Reaper
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.testing.clock import START_US, FakeClock

CREATE = Create("s", "text/plain", lifetime=Lifetime(ttl_s=1))


class OvertakenStore(MemoryStore):
    """Returns a state that was read before the stream has expired, was created again, and was read."""

    streams: Streams
    time: FakeClock

    async def get(self, key):
        found = await super().get(key)
        self.time.advance(2.0)
        created: Created = await self.streams.log.submit(CREATE)
        self.streams.touch("s", created.state)
        return found


async def test_a_reader_of_the_next_incarnation_does_not_keep_an_expired_one_alive():
    store, clock = OvertakenStore(), FakeClock()
    log = CommitLog(store, Live(), clock)
    store.streams, store.time = Streams(log, 1_000), clock
    log.start()
    try:
        created: Created = await log.submit(CREATE)
        assert (await store.streams.find("s")).read_seq == 1
        with pytest.raises(StreamNotFound):
            await store.streams.find("s", created.state.topic)
    finally:
        await log.stop()


class SlowStore(MemoryStore):
    """Returns a state that was read before the last read of the stream became durable. It knows no state at once."""

    streams: Streams

    def peek(self, key):
        return UNKNOWN

    async def get(self, key):
        found = await super().get(key)
        await Reaper(self.streams).stop()  # makes the reads durable, and forgets them
        return found


async def test_a_read_that_becomes_durable_meanwhile_keeps_the_stream_alive():
    store, clock = SlowStore(), FakeClock()
    log = CommitLog(store, Live(), clock)
    store.streams = Streams(log, 1_000)
    log.start()
    try:
        created: Created = await log.submit(CREATE)
        clock.advance(0.8)
        store.streams.touch("s", created.state)
        clock.advance(0.8)  # it would have expired without that read
        assert (await store.streams.find("s")).topic == created.state.topic
        assert not store.streams.touches
        clock.advance(0.3)
        with pytest.raises(StreamNotFound):
            await store.streams.find("s")
    finally:
        await log.stop()


@asynccontextmanager
async def opened_streams(clock: FakeClock) -> AsyncIterator[Streams]:
    log = CommitLog(MemoryStore(), Live(), clock)
    log.start()
    try:
        yield Streams(log, 1_000)
    finally:
        await log.stop()


async def append(streams: Streams, path: str, data: bytes) -> int:
    """Append, and return the position at which the data begins."""
    await streams.log.submit(Append(path, "text/plain", Messages(data, 1)))
    return (await streams.find(path)).tail - len(data)


async def test_a_time_is_found_in_a_stream_and_its_forks():
    clock, chance = FakeClock(), random.Random(3)
    async with opened_streams(clock) as streams:
        await streams.log.submit(Create("s0", "text/plain"))
        appends: list[tuple[int, int]] = []
        for generation in range(4):
            for _ in range(20):
                clock.advance(us=chance.randrange(3))
                appends.append((clock(), await append(streams, f"s{generation}", b"x" * chance.randrange(1, 50))))
            state = await streams.find(f"s{generation}")
            for time_us in range(START_US - 1, clock() + 2):
                first = next(((at, start) for at, start in appends if at >= time_us), (None, state.tail))
                assert await streams.find_time(state, time_us) == (Offset(0, first[1]), first[0])
            # The fork ends within an append, which the appends of the fork replace.
            cut = appends[len(appends) // 2 + 3]
            position = cut[1] + 1
            appends = [(at, start) for at, start in appends if start < position]
            plan = await streams.plan_fork(f"s{generation}", Offset(0, cut[1]), 1)
            await streams.log.submit(Fork(f"s{generation + 1}", f"s{generation}", None, plan.anchor, 1, plan.resolved))


async def test_an_empty_stream_has_no_time_but_an_end():
    async with opened_streams(FakeClock()) as streams:
        await streams.log.submit(Create("s", "text/plain"))
        assert await streams.find_time(await streams.find("s"), 0) == (Offset(0, 0), None)


async def test_of_appends_whose_times_go_back_the_found_one_follows_an_older_one():
    clock, chance = FakeClock(), random.Random(5)
    async with opened_streams(clock) as streams:
        await streams.log.submit(Create("s", "text/plain"))
        times: dict[int, int] = {}
        for _ in range(100):
            clock.now_us = START_US + chance.randrange(20)
            times[await append(streams, "s", b"x")] = clock()
        state = await streams.find("s")
        for time_us in range(START_US - 1, START_US + 22):
            offset, at_us = await streams.find_time(state, time_us)
            assert at_us == times.get(offset.position)
            assert at_us is None or at_us >= time_us
            assert times.get(offset.position - 1, 0) < time_us


async def test_a_time_in_a_stream_that_is_deleted_meanwhile_is_not_found():
    async with opened_streams(FakeClock()) as streams:
        await streams.log.submit(Create("s", "text/plain"))
        await append(streams, "s", b"data")
        state = await streams.find("s")
        await streams.log.store.erase(state.topic, state.tail, 10)
        with pytest.raises(StreamNotFound, match="was deleted while"):
            await streams.find_time(state, START_US)
