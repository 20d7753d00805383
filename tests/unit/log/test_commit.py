"""Group commit: many commands become durable at once, and only then do their callers get an answer."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.errors import MainstemError, Overloaded, ShuttingDown, StoreFailed, StoreFull
from mainstem.log.commands import Key, View
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store import MemoryStore, SqliteStore, Store
from mainstem.testing.clock import FakeClock
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.store_contract import Count, count, read_whole_log
from mainstem.traces import Delivery, DeliveryTrace, SettledCommand, SubmitTrace, current_trace

SOON_S = 10.0  # a missing answer should fail its test, not block the others


class Refusal(MainstemError):
    code = "refused"


class Add:
    """Add to a counter, and append a record."""

    def __init__(self, name: str, data: bytes = b"x") -> None:
        self.key = count(name)
        self.data = data
        self.size = len(data)

    def needs(self) -> Iterable[Key]:
        return [self.key]

    def apply(self, view: View) -> int:
        before = view.get(self.key)
        number = 1 if before is None else before.number + 1
        view.put(self.key, Count(number))
        view.append(Kind.APPEND, TopicId(1), number - 1, number, 1, self.data)
        return number


class AddAndRaise(Add):
    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name)
        self.error = error

    def apply(self, view: View) -> int:
        super().apply(view)
        raise self.error


class Look:
    """Changes nothing."""

    size = 0

    def __init__(self, name: str) -> None:
        self.key = count(name)

    def needs(self) -> Iterable[Key]:
        return [self.key]

    def apply(self, view: View) -> Count | None:
        state: Count | None = view.get(self.key)
        return state


@asynccontextmanager
async def opened(store: Store, clock: FakeClock | None = None) -> AsyncIterator[CommitLog]:
    """Return a log that does not commit until it is started."""
    await store.open()
    log = CommitLog(store, Live(), clock or FakeClock())
    try:
        yield log
    finally:
        await log.stop()
        await store.close()


@asynccontextmanager
async def on_disk(directory: Path, disk: FaultyDisk) -> AsyncIterator[CommitLog]:
    """Run a log on a disk, after its first commit, which also writes the header of the journal."""
    async with opened(SqliteStore(directory, disk)) as log:
        log.start()
        await log.submit(Add("first"))
        try:
            yield log
        finally:
            disk.heal()


async def records(store: Store) -> list[Record]:
    return [record async for record in read_whole_log(store)]


async def turn() -> None:
    """Let every task that is ready continue."""
    for _ in range(10):
        await asyncio.sleep(0)


# One sync for many commands


async def test_commands_that_wait_together_share_one_sync(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        names = [f"n{number}" for number in range(100)]
        assert await asyncio.gather(*(log.submit(Add(name)) for name in names)) == [1] * len(names)
        assert disk.syncs == before + 1


async def test_every_commit_is_synced(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        for number in range(1, 6):
            before = disk.syncs
            assert await log.submit(Add("a")) == number
            assert disk.syncs == before + 1


async def test_many_waiting_commands_need_few_syncs(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        outcomes = await asyncio.gather(*(log.submit(Add("a")) for _ in range(500)))
        assert outcomes == list(range(1, 501))
        assert disk.syncs == before + 1


async def test_a_batch_holds_no_more_commands_than_its_limit(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_COMMANDS_MAX", 2)
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        await asyncio.gather(*(log.submit(Add("a")) for _ in range(8)))
        assert disk.syncs - before >= 4


async def test_a_batch_holds_no_more_bytes_than_its_limit_but_at_least_one_command(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_BYTES_MAX", 10)
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        await asyncio.gather(*(log.submit(Add("a", data)) for data in (b"four", b"four", b"four", b"more than ten")))
        assert disk.syncs - before == 3


async def test_a_batch_that_changes_nothing_is_not_synced(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        disk.fill_up()
        assert await log.submit(Look("first")) == Count(1)
        refused = await asyncio.gather(log.submit(AddAndRaise("a", Refusal("no"))), return_exceptions=True)
        assert isinstance(refused[0], Refusal)
        assert disk.syncs == before


# Order


async def test_commands_are_applied_in_the_order_of_arrival() -> None:
    async with opened(MemoryStore()) as log:
        waiting = [asyncio.create_task(log.submit(Add("a"))) for _ in range(50)]
        await turn()
        log.start()
        assert await asyncio.gather(*waiting) == list(range(1, 51))
        assert [record.committed_id for record in await records(log.store)] == list(range(1, 51))
        assert log.store.head == 50


async def test_a_batch_has_one_time_and_later_batches_have_later_times() -> None:
    clock = FakeClock()
    async with opened(MemoryStore(), clock) as log:
        log.start()
        await asyncio.gather(*(log.submit(Add("a")) for _ in range(3)))
        clock.advance(us=7)
        await log.submit(Add("a"))
        times = [record.committed_at_us for record in await records(log.store)]
        assert times == [clock() - 7] * 3 + [clock()]


# Commands that fail


@pytest.mark.parametrize("error", [Refusal("no"), RuntimeError("a bug")])
async def test_a_command_that_raises_does_not_fail_its_batch(error: Exception) -> None:
    async with opened(MemoryStore()) as log:
        commands = [Add("a"), AddAndRaise("a", error), Add("a"), AddAndRaise("b", error), Add("b")]
        waiting = [asyncio.create_task(log.submit(command)) for command in commands]
        await turn()
        log.start()
        assert await asyncio.gather(*waiting, return_exceptions=True) == [1, error, 2, error, 1]
        assert [record.committed_id for record in await records(log.store)] == [1, 2, 3]
        assert await log.store.get(count("a")) == Count(2)
        assert await log.store.get(count("b")) == Count(1)


async def test_a_command_that_reads_a_state_it_did_not_need_fails_alone() -> None:
    class Careless(Look):
        def needs(self) -> Iterable[Key]:
            return []

    async with opened(MemoryStore()) as log:
        log.start()
        careless, added = await asyncio.gather(log.submit(Careless("b")), log.submit(Add("a")), return_exceptions=True)
        assert isinstance(careless, KeyError)
        assert added == 1


# Saves that fail


async def test_a_failed_save_fails_its_whole_batch_and_changes_nothing(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.fill_up()
        outcomes = await asyncio.gather(
            log.submit(Add("a")),
            log.submit(Look("a")),
            log.submit(AddAndRaise("a", Refusal("no"))),
            log.submit(Add("first")),
            return_exceptions=True,
        )
        # Even a refusal was decided from states that were never saved.
        assert [type(outcome) for outcome in outcomes] == [StoreFull] * 4
        disk.heal()
        assert log.store.head == 1
        assert len(await records(log.store)) == 1
        assert await log.store.get(count("a")) is None
        assert await log.submit(Look("first")) == Count(1)


async def test_after_a_failed_save_the_next_batch_gets_the_same_ids(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.fill_up(after_writes=1)
        with pytest.raises(StoreFull) as refusal:
            await log.submit(Add("a", b"lost" * 2_000))
        assert refusal.value.headers == {"Retry-After": "1"}
        assert refusal.value.retryable
        disk.heal()
        assert await log.submit(Add("a", b"kept")) == 1
        assert [(record.committed_id, record.data) for record in await records(log.store)] == [(1, b"x"), (2, b"kept")]


async def test_after_a_failed_sync_every_write_is_refused(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.fail_syncs()
        with pytest.raises(StoreFailed):
            await log.submit(Add("a"))
        disk.heal()
        before = disk.writes
        with pytest.raises(StoreFailed):
            await log.submit(Add("a"))
        assert disk.writes == before
        assert log.store.broken is not None
        assert await log.submit(Look("first")) == Count(1)


async def test_a_failed_save_does_not_wake_live_readers(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        with log.live.watch(TopicId(1)) as topic:
            disk.fill_up()
            with pytest.raises(StoreFull):
                await log.submit(Add("a"))
            assert topic.version == 0
            assert topic.size == 0


# Durable before visible


async def test_a_commit_is_neither_answered_nor_published_before_it_is_durable(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    async with on_disk(tmp_path, disk) as log:
        with log.live.watch(TopicId(1)) as topic:
            disk.hold_syncs()
            waiting = asyncio.create_task(log.submit(Add("a", b"held")))
            await asyncio.to_thread(disk.wait_for_sync)
            await turn()
            assert not waiting.done()
            assert topic.version == 0
            assert log.live.read(TopicId(1), 0, 100) is None
            assert log.store.head == 1
            assert await log.store.get(count("a")) is None
            assert await log.store.read(TopicId(1), 1, 100, 100) is None
            assert await log.store.read_log(CommittedId(1), CommittedId(100), 100) == []
            disk.heal()
            assert await waiting == 1
            assert topic.version == 1
            assert await log.store.get(count("a")) == Count(1)


async def test_commands_that_arrive_during_a_commit_share_the_next_one(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        before = disk.syncs
        disk.hold_syncs()
        first = asyncio.create_task(log.submit(Add("a")))
        await asyncio.to_thread(disk.wait_for_sync)
        rest = [asyncio.create_task(log.submit(Add("a"))) for _ in range(100)]
        await turn()
        disk.heal()
        assert await first == 1
        assert await asyncio.gather(*rest) == list(range(2, 102))
        assert disk.syncs == before + 2


# Limits


async def test_too_many_waiting_commands_are_refused_until_some_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMANDS_WAITING_MAX", 3)
    async with opened(MemoryStore()) as log:
        waiting = [asyncio.create_task(log.submit(Add("a"))) for _ in range(3)]
        await turn()
        with pytest.raises(Overloaded) as refusal:
            await log.submit(Add("a"))
        assert refusal.value.headers == {"Retry-After": "1"}
        log.start()
        assert await asyncio.gather(*waiting) == [1, 2, 3]
        assert await log.submit(Add("a")) == 4


async def test_too_many_waiting_bytes_are_refused_until_some_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMAND_BYTES_WAITING_MAX", 10)
    async with opened(MemoryStore()) as log:
        waiting = asyncio.create_task(log.submit(Add("a", b"12345678")))
        await turn()
        with pytest.raises(Overloaded):
            await log.submit(Add("a", b"123"))
        small = asyncio.create_task(log.submit(Add("a", b"12")))
        await turn()
        log.start()
        assert list(await asyncio.gather(waiting, small)) == [1, 2]
        assert await log.submit(Add("a", b"1234567890")) == 3


async def test_one_command_may_be_larger_than_all_that_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMAND_BYTES_WAITING_MAX", 10)
    async with opened(MemoryStore()) as log:
        log.start()
        assert await log.submit(Add("a", b"12345678901")) == 1


async def test_nothing_is_queued_while_the_oldest_command_has_waited_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(MemoryStore()) as log:
        waiting = asyncio.create_task(log.submit(Add("a")))
        await turn()
        log.require_room(1)
        monkeypatch.setattr(limits, "COMMAND_WAIT_S_MAX", -1.0)
        with pytest.raises(Overloaded):
            log.require_room(1)
        with pytest.raises(Overloaded):
            await log.submit(Add("a"))
        log.start()
        assert await waiting == 1
        assert await log.submit(Add("a")) == 2


async def test_cancelled_callers_no_longer_count_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMAND_BYTES_WAITING_MAX", 10)
    async with opened(MemoryStore()) as log:
        gone = asyncio.create_task(log.submit(Add("a", b"1234567890")))
        await turn()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        log.start()
        await turn()
        assert await log.submit(Add("a", b"1234567890")) == 1


# Callers that give up


async def test_a_command_whose_caller_gave_up_before_it_ran_changes_nothing() -> None:
    async with opened(MemoryStore()) as log:
        gone, stays = (asyncio.create_task(log.submit(Add(name))) for name in ("gone", "stays"))
        await turn()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        log.start()
        assert await stays == 1
        assert await log.store.get(count("gone")) is None
        assert log.store.head == 1


async def test_a_log_whose_callers_have_all_given_up_continues() -> None:
    async with opened(MemoryStore()) as log:
        gone = [asyncio.create_task(log.submit(Add("gone"))) for _ in range(100)]
        await turn()
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        log.start()
        await turn()
        assert log.store.head == 0
        assert await log.submit(Add("a")) == 1


async def test_a_batch_of_callers_that_gave_up_does_not_hold_up_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_COMMANDS_MAX", 10)
    async with opened(MemoryStore()) as log:
        gone = [asyncio.create_task(log.submit(Add("gone"))) for _ in range(25)]
        stays = asyncio.create_task(log.submit(Add("stays")))
        await turn()
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        log.start()
        assert await asyncio.wait_for(stays, SOON_S) == 1
        assert log.store.head == 1


async def test_a_caller_that_gives_up_during_the_commit_does_not_affect_it(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.hold_syncs()
        gone, stays = (asyncio.create_task(log.submit(Add("a"))) for _ in range(2))
        await asyncio.to_thread(disk.wait_for_sync)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        disk.heal()
        assert await stays == 2
        assert await log.submit(Add("a")) == 3


class Deaf:
    """A future that raises when its outcome is set."""

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None:
        raise RuntimeError("the connection is gone")

    def set_exception(self, exception: object, /) -> None:
        raise RuntimeError("the connection is gone")


async def test_a_future_that_raises_does_not_affect_the_others() -> None:
    async with opened(MemoryStore()) as log:
        before = asyncio.create_task(log.submit(Add("a")))
        await turn()
        log.enqueue(Add("a"), Deaf())
        after = asyncio.create_task(log.submit(Add("a")))
        await turn()
        log.start()
        assert list(await asyncio.wait_for(asyncio.gather(before, after), SOON_S)) == [1, 3]
        assert await asyncio.wait_for(log.submit(Add("a")), SOON_S) == 4


# Observers


async def test_observers_receive_every_durable_change(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        told: list[dict[Key, object]] = []
        log.observers.append(lambda changes, records: told.append(dict(changes)))
        await log.submit(Add("a"))
        await log.submit(Look("a"))
        disk.fill_up()
        with pytest.raises(StoreFull):
            await log.submit(Add("a"))
        assert told == [{count("a"): Count(1)}]


async def test_an_observer_that_fails_does_not_make_a_durable_command_fail() -> None:
    def fail(changes: object, records: object) -> None:
        raise RuntimeError("a bug")

    async with opened(MemoryStore()) as log:
        log.start()
        log.observers.append(fail)
        assert await asyncio.wait_for(log.submit(Add("a")), SOON_S) == 1
        assert await log.store.get(count("a")) == Count(1)


# Stopping


async def test_stopping_finishes_waiting_commands_and_refuses_new_ones() -> None:
    async with opened(MemoryStore()) as log:
        waiting = [asyncio.create_task(log.submit(Add("a"))) for _ in range(100)]
        await turn()
        log.start()
        await log.stop()
        assert [task.result() for task in waiting] == list(range(1, 101))
        with pytest.raises(ShuttingDown) as refusal:
            await log.submit(Add("a"))
        assert refusal.value.headers == {"Retry-After": "1"}
        assert log.store.head == 100


async def test_stopping_waits_for_the_commit_in_progress(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.hold_syncs()
        waiting = asyncio.create_task(log.submit(Add("a")))
        await asyncio.to_thread(disk.wait_for_sync)
        stopping = asyncio.create_task(log.stop())
        await turn()
        assert not stopping.done()
        disk.heal()
        await stopping
        assert waiting.result() == 1


# Traces


class Traces:
    """A tracer, and a trace that keeps what is reported to it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.settled: list[SettledCommand] = []
        self.error = error

    def add_command(self, settled: SettledCommand) -> None:
        self.settled.append(settled)
        if self.error is not None:
            raise self.error

    def add_page(self, began_ns: int, size: int) -> None:
        raise AssertionError

    def begin_submit(self, drafts: int) -> SubmitTrace | None:
        raise AssertionError

    def begin_delivery(self, delivery: Delivery) -> DeliveryTrace:
        raise AssertionError


async def submit_traced(log: CommitLog, traces: Traces, *commands: Add) -> list[object]:
    """Submit commands of one traced request."""
    log.tracer = traces
    token = current_trace.set(traces)
    try:
        return await asyncio.gather(*map(log.submit, commands), return_exceptions=True)
    finally:
        current_trace.reset(token)


async def test_a_trace_learns_when_its_commands_waited_and_were_durable() -> None:
    async with opened(MemoryStore()) as log:
        traces = Traces()
        waiting = asyncio.create_task(submit_traced(log, traces, Add("a"), AddAndRaise("b", Refusal("no")), Add("a")))
        untraced = asyncio.create_task(log.submit(Add("c")))
        await turn()
        log.start()
        results = await waiting
        assert await untraced == 1
    first, refused, last = traces.settled
    assert [settled.outcome for settled in traces.settled] == results
    assert [settled.accepted for settled in traces.settled] == [True, False, True]
    assert isinstance(refused.outcome, Refusal)
    for settled in (first, refused, last):
        assert settled.enqueued_ns <= settled.taken_ns <= settled.settled_ns
        assert (settled.commands, settled.first_id, settled.last_id) == (4, 1, 3)


async def test_a_trace_learns_that_a_batch_has_failed(tmp_path: Path, disk: FaultyDisk) -> None:
    async with on_disk(tmp_path, disk) as log:
        disk.fail_syncs()
        traces = Traces()
        (error,) = await submit_traced(log, traces, Add("a"))
    (settled,) = traces.settled
    assert isinstance(error, StoreFailed)
    assert (settled.outcome, settled.accepted, settled.first_id) == (error, False, 0)


async def test_a_trace_that_fails_costs_no_outcome(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(MemoryStore()) as log:
        log.start()
        traces = Traces(RuntimeError("the trace is broken"))
        assert await submit_traced(log, traces, Add("a"), Add("a")) == [1, 2]
        assert len(traces.settled) == 2
    assert "a command could not be added to its trace" in caplog.text
