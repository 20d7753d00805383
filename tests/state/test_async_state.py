"""`AsyncState` and `load_state` against a real server."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from mainstem import limits
from mainstem.client import (
    AsyncStreams,
    BadArgument,
    InvalidResponse,
    NotFound,
    Retries,
    StreamClosed,
    StreamGone,
    Streams,
    TailMoved,
)
from mainstem.client.state import (
    AsyncState,
    Collection,
    Control,
    IncompleteSnapshot,
    InvalidMessage,
    Missed,
    RowChanged,
    StateClosed,
    StateFailed,
    StateTimedOut,
    StateTooLarge,
    load_state,
)
from tests.support.waits import eventually_async

QUICK = Retries(attempts_max=6, delay_s=0.01, delay_s_max=0.05)


@dataclass
class User:
    id: str
    name: str


users = Collection("user", User, key="id")
settings = Collection("setting", dict[str, Any])

ADA, BOB = User("1", "Ada"), User("2", "Bob")


@pytest.fixture
def connect(shared_server):
    """Make a client of the shared server."""
    return lambda: AsyncStreams(shared_server.url, retries=QUICK)


def insert(key, name, **headers):
    return {"type": "user", "key": key, "value": {"name": name}, "headers": {"operation": "insert", **headers}}


# Rows


async def test_rows_follow_the_stream_live(connect, path):
    async with connect() as streams, AsyncState(streams, path, users, settings) as state:
        await state.synced()
        rows = state[users]
        assert len(rows) == 0
        await state.insert(users, ADA, txid="one")
        await state.wait_for_txid("one")
        assert dict(rows) == {"1": ADA}
        await state.update(users, User("1", "Ada L."))
        await state.upsert(users, BOB)
        await state.insert(settings, {"dark": True}, key="theme")
        await state.delete(users, "1", txid="two")
        await state.wait_for_txid("two")
        assert dict(rows) == {"2": BOB}
        assert state[settings]["theme"] == {"dark": True}
        assert state.offset is not None


async def test_two_states_see_each_others_changes(connect, path):
    async with (
        connect() as streams,
        connect() as others,
        AsyncState(streams, path, users) as here,
        AsyncState(others, path, users) as there,
    ):
        await here.insert(users, ADA, txid="here")
        await there.insert(users, BOB, txid="there")
        for state in (here, there):
            await state.wait_for_txid("here")
            await state.wait_for_txid("there")
            assert dict(state[users]) == {"1": ADA, "2": BOB}


async def test_a_state_begins_with_what_the_stream_holds(connect, path):
    async with connect() as streams:
        await streams.append_json(path, *(insert(str(number), "x", txid="all") for number in range(5_000)))
        async with AsyncState(streams, path, users) as state:
            await state.synced()
            assert len(state[users]) == 5_000
            await state.wait_for_txid("all")


async def test_several_changes_are_appended_together(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.append(users.insert(ADA, txid="t"), users.insert(BOB, txid="t"), users.delete("1", txid="t"))
        await state.wait_for_txid("t")
        assert dict(state[users]) == {"2": BOB}
        with pytest.raises(BadArgument, match="'setting'"):
            await state.append(users.insert(ADA), settings.insert({}, "x"))
        assert len(await streams.read_json(path)) == 3


async def test_a_reset_removes_all_rows(connect, path):
    async with connect() as streams, AsyncState(streams, path, users, settings) as state:
        await state.insert(users, ADA)
        await state.insert(settings, {}, key="a")
        await state.reset()
        await state.insert(users, BOB, txid="after")
        await state.wait_for_txid("after")
        assert dict(state[users]) == {"2": BOB}
        assert len(state[settings]) == 0
        await state.synced()


async def test_load_state_reads_a_stream_once(connect, path, shared_server):
    async with connect() as streams:
        await streams.append_json(path, insert("1", "Ada"), 5, insert("2", "Bob"))
    with Streams(shared_server.url) as blocking:
        skipped: list[InvalidMessage] = []
        view = load_state(blocking, path, users, on_invalid=skipped.append)
        assert view[users] == {"1": ADA, "2": BOB}
        assert [error.index for error in skipped] == [1]
        with pytest.raises(InvalidMessage, match="it is a number, not an object"):
            load_state(blocking, path, users)


# Subscriptions


async def test_changes_are_reported_with_old_and_new_values(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.synced()
        changes = state.changes()
        await state.insert(users, ADA, txid="t")
        await state.update(users, User("1", "Ada L."))
        await state.delete(users, "missing")
        await state.delete(users, "1")
        await state.reset()
        seen = [await anext(changes) for _ in range(4)]
    rows = [change for change in seen if isinstance(change, RowChanged)]
    assert [(row.operation, row.value, row.old_value) for row in rows] == [
        ("insert", ADA, None),
        ("update", User("1", "Ada L."), ADA),
        ("delete", None, User("1", "Ada L.")),
    ]
    assert rows[0].message.txid == "t"
    assert seen[-1] == Control("reset")
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_a_slow_listener_misses_changes_and_delays_nobody(connect, path, monkeypatch):
    monkeypatch.setattr(limits, "CLIENT_STATE_CHANGES_MAX", 10)
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.synced()
        changes = state.changes()
        await streams.append_json(
            path, *(insert(str(number), "x") for number in range(100)), insert("z", "x", txid="z")
        )
        await state.wait_for_txid("z")
    seen = [change async for change in changes]
    assert len(seen) <= 11
    assert isinstance(seen[0], Missed)
    assert seen[0].changes + len(seen) - 1 == 101


# Waiting


async def test_waiting_ends_in_time(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        with pytest.raises(StateTimedOut, match=r"the txid 'never' did not arrive within 0\.05 s"):
            await state.wait_for_txid("never", timeout_s=0.05)
        with pytest.raises(TimeoutError):
            await state.wait_for_txid("never", timeout_s=0)


async def test_a_state_of_a_closed_stream_is_complete_and_cannot_change(connect, path):
    async with connect() as streams:
        await streams.append_json(path, insert("1", "Ada"))
        async with AsyncState(streams, path, users) as state:
            await state.synced()
            changes = state.changes()
            await streams.close(path)
            assert [change async for change in changes] == []
            assert dict(state[users]) == {"1": ADA}
            with pytest.raises(StateClosed, match="the stream is closed, and the txid 'never' did not arrive"):
                await state.wait_for_txid("never")
            with pytest.raises(StreamClosed):
                await state.insert(users, BOB)
            assert [change async for change in state.changes()] == []


async def test_a_state_is_used_inside_async_with_and_opened_once(connect, path):
    async with connect() as streams:
        state = AsyncState(streams, path, users)
        with pytest.raises(StateClosed, match="it is not open"):
            await state.insert(users, ADA)
        async with state:
            with pytest.raises(BadArgument, match="only once"):
                await state.__aenter__()
            waiting = asyncio.ensure_future(state.wait_for_txid("never"))
            await state.synced()
        with pytest.raises(StateClosed):
            await waiting
        with pytest.raises(StateClosed):
            await state.reset()


# Failures


async def test_a_missing_stream_fails_every_call(connect):
    async with connect() as streams, AsyncState(streams, "state/missing", users) as state:
        with pytest.raises(StateFailed, match="state state/missing has failed") as raised:
            await state.synced()
        assert isinstance(raised.value.__cause__, NotFound)
        for call in (lambda: state[users], state.changes):
            with pytest.raises(StateFailed):
                call()
        with pytest.raises(StateFailed):
            await state.insert(users, ADA)
        with pytest.raises(StateFailed):
            await state.write_snapshot()


async def test_a_failure_that_no_call_has_raised_is_raised_at_the_end(connect, path):
    async with connect() as streams:
        await streams.append_json(path, "hostile")
        with pytest.raises(StateFailed, match="it is a string"):
            async with AsyncState(streams, path, users) as state:
                await eventually_async(lambda: state._failure)


async def test_a_deleted_stream_ends_the_state(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.synced()
        changes = state.changes()
        await streams.delete(path)
        with pytest.raises(StateFailed) as raised:
            await anext(changes)
        assert isinstance(raised.value.__cause__, (StreamGone, NotFound))


async def test_a_stream_of_text_has_no_state(connect, path):
    async with connect() as streams:
        await streams.create(f"{path}/text", "text/plain")
        async with AsyncState(streams, f"{path}/text", users) as state:
            with pytest.raises(StateFailed, match="needs a stream of application/json") as raised:
                await state.synced()
            assert isinstance(raised.value.__cause__, InvalidResponse)


async def test_a_state_resumes_after_the_server_was_killed(start_on_fixed_port):
    server = start_on_fixed_port()
    async with AsyncStreams(server.url, retries=Retries(delay_s=0.01, delay_s_max=0.05)) as streams:
        await streams.create("killed", "application/json")
        async with AsyncState(streams, "killed", users) as state:
            await state.insert(users, ADA, txid="before")
            await state.wait_for_txid("before")
            server.kill()
            server.start()
            await state.insert(users, BOB, txid="after")
            await state.wait_for_txid("after", timeout_s=60)
            assert dict(state[users]) == {"1": ADA, "2": BOB}
            assert len(await streams.read_json("killed")) == 2


# Hostile messages

HOSTILE: list[Any] = [
    None,
    5,
    "text",
    [[]],
    {},
    {"headers": {"control": "explode"}},
    {"headers": {"operation": "insert"}},
    {"type": "user", "key": 5, "value": {}, "headers": {"operation": "insert"}},
    {"type": "user", "key": "x", "headers": {"operation": "update"}},
    {"type": "user", "key": "x", "value": "text", "headers": {"operation": "insert"}},
    {"type": "user", "key": "x", "value": {"name": 5}, "headers": {"operation": "insert"}},
    {
        "type": "user",
        "key": "x",
        "value": {"name": "x" * 1_000_000, "id": []},
        "headers": {"operation": "insert", "txid": 1},
    },
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_message_fails_the_state_with_its_reason(connect, path, hostile):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.insert(users, ADA, txid="good")
        await state.wait_for_txid("good")
        rows = state[users]
        await streams.append_json(path, insert("2", "Bob"), hostile)
        with pytest.raises(StateFailed) as raised:
            await state.wait_for_txid("never", timeout_s=60)
        assert isinstance(raised.value.__cause__, InvalidMessage)
        assert "message 2 of the 2 that end at offset" in str(raised.value)
        assert len(str(raised.value)) < 1_000
        assert dict(rows) == {"1": ADA}


async def test_hostile_messages_can_be_skipped(connect, path):
    skipped: list[InvalidMessage] = []
    async with connect() as streams, AsyncState(streams, path, users, on_invalid=skipped.append) as state:
        for message in HOSTILE:
            await streams.append_json(path, message)
        await state.insert(users, ADA, txid="good")
        await state.wait_for_txid("good")
        assert dict(state[users]) == {"1": ADA}
        assert len(skipped) == len(HOSTILE)


async def test_a_callback_that_fails_fails_the_state(connect, path):
    def refuse(error):
        raise RuntimeError("no more")

    async with connect() as streams, AsyncState(streams, path, users, on_invalid=refuse) as state:
        await streams.append_json(path, "hostile")
        with pytest.raises(StateFailed, match="no more"):
            await state.wait_for_txid("never", timeout_s=60)


async def test_rows_that_are_too_large_fail_the_state(connect, path):
    async with connect() as streams, AsyncState(streams, path, users, bytes_max=100_000) as state:
        await state.insert(users, User("1", "x" * 100_000))
        with pytest.raises(StateFailed, match="more than 100000 bytes") as raised:
            await state.wait_for_txid("never", timeout_s=60)
        assert isinstance(raised.value.__cause__, StateTooLarge)


async def test_interleaved_snapshots_and_a_reset_in_the_middle(connect, path):
    start, end, reset = ({"headers": {"control": kind}} for kind in ("snapshot-start", "snapshot-end", "reset"))
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await streams.append_json(path, end, start, insert("1", "Ada"), start, insert("2", "Bob"), end, end)
        await streams.append_json(path, start, insert("3", "Eve"), reset, insert("4", "Dan"), end)
        await streams.append_json(path, insert("5", "Fay", txid="last"))
        await state.wait_for_txid("last")
        assert dict(state[users]) == {"4": User("4", "Dan"), "5": User("5", "Fay")}


# Snapshots


async def test_a_reader_that_begins_at_a_snapshot_has_all_rows(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        for number in range(20):
            await state.insert(users, User(str(number % 3), f"name {number}"))
        snapshot = await state.write_snapshot()
        await state.insert(users, User("9", "later"), txid="later")
        await state.wait_for_txid("later")
        async with AsyncState(streams, path, users, offset=snapshot.offset) as late:
            await late.synced()
            assert dict(late[users]) == dict(state[users])
            assert len(late[users]) == 4
        assert snapshot.rows == 3
        written = await streams.read_json(path, snapshot.offset)
        assert [message["headers"].get("control") for message in written] == [
            "snapshot-start",
            *[None] * 3,
            "snapshot-end",
            None,
        ]


async def test_a_snapshot_never_overwrites_newer_changes(connect, path):
    """While one writer appends, another one writes snapshots: no change is lost."""
    async with connect() as streams, connect() as others, AsyncState(streams, path, users) as state:

        async def write() -> None:
            for number in range(60):
                await others.append_json(path, insert("1", str(number), txid=f"t{number}"))

        writing = asyncio.ensure_future(write())
        while not writing.done():
            try:
                await state.write_snapshot()
            except TailMoved:
                continue
        await writing
        await state.write_snapshot()
        await state.wait_for_txid("t59")
        names = [
            int(message["value"]["name"])
            for message in await streams.read_json(path)
            if message.get("value") is not None
        ]
        assert names == sorted(names)
        assert dict(state[users]) == {"1": User("1", "59")}


async def test_a_snapshot_gives_up_after_some_attempts(connect, path, monkeypatch):
    monkeypatch.setattr(limits, "CLIENT_STATE_SNAPSHOT_ATTEMPTS", 3)
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await state.synced()
        attempts = 0
        append = streams.append

        async def append_late(*arguments, **options):
            nonlocal attempts
            attempts += 1
            await streams.append_json(path, insert("1", str(attempts)))
            return await append(*arguments, **options)

        monkeypatch.setattr(streams, "append", append_late)
        with pytest.raises(TailMoved):
            await state.write_snapshot()
        assert attempts == 3
        assert len(await streams.read_json(path)) == 3


async def test_a_snapshot_that_would_not_hold_every_type_is_refused(connect, path):
    async with connect() as streams, AsyncState(streams, path, users) as state:
        await streams.append_json(path, {**insert("1", "x", txid="t"), "type": "task"})
        await state.wait_for_txid("t")
        with pytest.raises(IncompleteSnapshot, match="'task'"):
            await state.write_snapshot()
        await state.reset()
        await state.insert(users, ADA, txid="u")
        await state.wait_for_txid("u")
        assert (await state.write_snapshot()).rows == 1


async def test_a_snapshot_by_a_state_that_skipped_a_message_is_refused(connect, path):
    """It would revert the row for readers that accept the message."""
    newer = {
        "type": "user",
        "key": "1",
        "value": {"id": "1", "name": ["Ada", "L."]},
        "headers": {"operation": "update"},
    }
    async with connect() as streams, AsyncState(streams, path, users, on_invalid=lambda error: None) as state:
        await state.insert(users, ADA)
        await streams.append_json(path, newer)
        with pytest.raises(IncompleteSnapshot, match="message 1 of the 1 that end at offset"):
            await state.write_snapshot()
        assert len(await streams.read_json(path)) == 2
        await state.reset()
        await state.insert(users, BOB, txid="after")
        await state.wait_for_txid("after")
        assert (await state.write_snapshot()).rows == 1


async def test_a_snapshot_by_a_state_that_began_after_some_rows_is_refused(connect, path):
    async with connect() as streams:
        appended = await streams.append_json(path, insert("1", "Ada"))
        for offset in (appended.next_offset, "now"):
            async with AsyncState(streams, path, users, offset=offset) as state:
                with pytest.raises(IncompleteSnapshot, match="it was opened at "):
                    await state.write_snapshot()
        async with AsyncState(streams, path, users) as state:
            snapshot = await state.write_snapshot()
        async with AsyncState(streams, path, users, offset=snapshot.offset) as state:
            assert (await state.write_snapshot()).rows == 1
        async with AsyncState(streams, path, users, offset=snapshot.next_offset) as state:
            assert (await state.write_snapshot()).rows == 1  # the snapshot of the previous state comes after the offset


async def test_a_snapshot_by_a_state_whose_stream_was_trimmed_is_refused(clocked):
    server, clock = clocked
    async with AsyncStreams(server.url, retries=QUICK) as streams:
        await streams.create("trimmed", "application/json", retention="max-messages=3")
        async with AsyncState(streams, "trimmed", users) as early:
            for number in range(5):
                await streams.append_json("trimmed", insert(str(number), "x", txid=f"t{number}"))
            await early.wait_for_txid("t4")
            begin = (await streams.head("trimmed")).earliest_offset
            clock.advance(6)
            await eventually_async(lambda: has_moved(streams, "trimmed", begin))
            async with AsyncState(streams, "trimmed", users) as late:
                await late.synced()
                assert len(late[users]) < 5
                with pytest.raises(IncompleteSnapshot, match="its beginning was trimmed"):
                    await late.write_snapshot()
                assert (await early.write_snapshot()).rows == 5
                await eventually_async(lambda: len(late[users]) == 5)
                assert (await late.write_snapshot()).rows == 5


async def has_moved(streams, path, begin):
    return (await streams.head(path)).earliest_offset != begin
