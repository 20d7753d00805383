"""Background work erases, trims and extends streams while clients read them. No reader may notice or lose data."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create, Lifetime
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork
from mainstem.streams.reading.reader import Streams
from mainstem.streams.reaper import Reaper
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import Retention
from mainstem.testing.clock import FakeClock
from mainstem.testing.loops import run
from tests.support.examples import examples

TEXT = "text/plain"


@asynccontextmanager
async def opened() -> AsyncIterator[Streams]:
    log = CommitLog(MemoryStore(), Live(), FakeClock())
    try:
        yield Streams(log, limits.PAGE_BYTES)
    finally:
        await log.stop()


@settings(max_examples=examples(50))
@given(
    messages=st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=6),
    erased=st.integers(0, 6),
    position=st.integers(0, 30),
)
def test_a_read_that_races_with_erasure_returns_the_right_bytes_or_an_error(
    messages: list[bytes], erased: int, position: int
) -> None:
    async def main() -> None:
        async with opened() as streams:
            log = streams.log
            log.start()
            await log.submit(Create("a", TEXT))
            for message in messages:
                await log.submit(Append("a", TEXT, Messages(message, 1)))
            state = await streams.find("a")
            # The reader holds this state. Now the stream is deleted, and its first records are erased.
            await log.submit(Delete("a"))
            await log.store.erase(state.topic, state.tail, erased)
            start = min(position, state.tail)
            try:
                page = await streams.read(state, Offset(state.read_seq, start))
            except MainstemError:
                assert erased > 0
            else:
                assert page.data == b"".join(messages)[start : page.end.position]

    run(main())


async def test_a_fork_made_while_its_source_is_trimmed_keeps_the_data_it_inherits() -> None:
    async with opened() as before:
        before.log.start()
        await before.log.submit(Create("source", TEXT, retention=Retention(max_messages=1)))
        for number in range(4):
            await before.log.submit(Append("source", TEXT, Messages(b"%d" % number, 1)))
        # This log is not running yet: the fork waits in its queue while the reaper sees a stream without forks.
        log = CommitLog(before.log.store, Live(), before.log.clock_us)
        streams = Streams(log, limits.PAGE_BYTES)
        forking = asyncio.create_task(log.submit(Fork("fork", "source", None, None, 0, None)))
        trimming = asyncio.create_task(Reaper(streams).round())
        for _ in range(20):
            await asyncio.sleep(0)
        log.start()
        await asyncio.gather(forking, trimming)
        state = await streams.find("fork")
        page = await streams.read(state, state.earliest_offset)
        assert page.data == b"0123"[state.earliest :]
        await log.stop()


async def test_a_trimmed_stream_begins_at_its_first_remaining_message() -> None:
    async with opened() as streams:
        log = streams.log
        log.start()
        await log.submit(Create("a", TEXT, retention=Retention(max_messages=2)))
        for number in range(5):
            await log.submit(Append("a", TEXT, Messages(b"%d" % number, 1)))
        await Reaper(streams).round()
        state = await streams.find("a")
        assert (await streams.read(state, state.earliest_offset)).data == b"34"
        with pytest.raises(MainstemError):
            streams.resolve(state, Offset(0, 2))


async def test_reads_that_outnumber_the_command_queue_still_extend_every_ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMANDS_WAITING_MAX", 10)
    clock = FakeClock()
    log = CommitLog(MemoryStore(), Live(), clock)
    log.start()
    streams = Streams(log, limits.PAGE_BYTES)
    paths = [f"s{number}" for number in range(35)]
    for path in paths:
        await log.submit(Create(path, TEXT, lifetime=Lifetime(ttl_s=60)))
    clock.advance(30)
    for path in paths:
        streams.touch(path, await streams.find(path))
    await Reaper(streams).round()
    assert streams.touches == {}
    clock.advance(45)
    for path in paths:
        await streams.find(path)
    await log.stop()
