"""Python and the official npm package `@durable-streams/state` read what the other one writes."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from mainstem.client import AsyncStreams, Streams
from mainstem.client.state import AsyncState, Collection, Control, RowChanged, load_state
from tests.support.node_packages import assert_pinned

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]


class User(msgspec.Struct, omit_defaults=True):
    id: str
    name: str
    tags: list[str] = []


class Task(msgspec.Struct):
    id: int
    title: str


users = Collection("user", User, key="id")
tasks = Collection("task", Task, key="id")

WRITTEN = {
    "users": {"1": {"id": "1", "name": "Ada L."}, "3": {"id": "3", "name": "Grüße 👍", "tags": ["x"]}},
    "tasks": {"7": {"id": 7, "title": "write"}},
}
"""The rows that the Python writer leaves."""


def by_key(rows):
    """The rows as StreamDB has them: it replaces the key in each value by the text of the message."""
    return {key: {**row, "id": key} for key, row in rows.items()}


async def write_rows(state: AsyncState) -> None:
    await state.insert(users, User("1", "Ada"))
    await state.insert(users, User("2", "Bob"))
    await state.update(users, User("1", "Ada L."), old_value=User("1", "Ada"))
    await state.upsert(users, User("3", "Grüße 👍", ["x"]))
    await state.delete(users, "2")
    await state.delete(users, "never there")
    await state.append(tasks.insert(Task(8, "gone")), tasks.insert(Task(7, "write")), tasks.delete("8"))


async def test_the_package_reads_the_rows_that_python_writes(shared_server, path, run_node):
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users, tasks) as state:
        await write_rows(state)
    folded = await asyncio.to_thread(run_node, "materialized")
    assert folded == {"rows": {"user": WRITTEN["users"], "task": WRITTEN["tasks"]}, "controls": []}
    database = await asyncio.to_thread(run_node, "database")
    assert database == {name: by_key(rows) for name, rows in WRITTEN.items()}


async def test_the_package_reads_the_snapshot_that_python_writes(shared_server, path, run_node):
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users, tasks) as state:
        await write_rows(state)
        snapshot = await state.write_snapshot()
    assert snapshot.rows == 3
    folded = await asyncio.to_thread(run_node, "materialized")
    assert folded["rows"] == {"user": WRITTEN["users"], "task": WRITTEN["tasks"]}
    assert folded["controls"] == ["snapshot-start", "snapshot-end"]
    database = await asyncio.to_thread(run_node, "database")
    assert database == {name: by_key(rows) for name, rows in WRITTEN.items()}


async def test_the_package_reads_the_reset_that_python_writes(shared_server, path, run_node):
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users, tasks) as state:
        await write_rows(state)
        await state.reset()
        await state.insert(users, User("4", "Eve"))
    folded = await asyncio.to_thread(run_node, "materialized")
    assert folded == {"rows": {"user": {"4": {"id": "4", "name": "Eve"}}}, "controls": ["reset"]}


def test_the_database_of_the_package_fails_at_a_reset(shared_server, path, run_node):
    """The guide says so. If this test fails, the package is corrected: update both."""
    with Streams(shared_server.url) as streams:
        streams.append_json(path, users.insert(User("1", "Ada")).to_message(), Control("reset").to_message())
        assert load_state(streams, path, users)[users] == {}
    assert run_node("failure") == "NoPendingSyncTransactionWriteError"


def test_the_database_of_the_package_fails_at_a_value_that_is_not_an_object(shared_server, path, run_node):
    """The guide says so. If this test fails, the package is corrected: update both."""
    flags = Collection("user", bool)
    with Streams(shared_server.url) as streams:
        streams.append_json(path, flags.insert(True, "new-editor").to_message())
        assert load_state(streams, path, flags)[flags] == {"new-editor": True}
    assert run_node("failure") == "Error"
    assert run_node("materialized")["rows"] == {"user": {"new-editor": True}}


async def test_the_package_follows_what_python_writes_and_the_other_way_round(shared_server, path, run_node):
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users, tasks) as state:
        await state.insert(users, User("1", "Ada"))
        following = asyncio.ensure_future(asyncio.to_thread(run_node, "follow", "from-python"))
        await state.wait_for_txid("ready", timeout_s=60)
        assert state[users]["node"] == User("node", "Ready")
        await state.update(users, User("1", "Ada L."), txid="from-python")
        seen = await following
    ada = {"id": "1", "name": "Ada"}
    assert seen["before"] == {"users": {"1": ada}, "tasks": {}}
    assert seen["after"]["users"] == {"1": {**ada, "name": "Ada L."}, "node": {"id": "node", "name": "Ready"}}


async def test_python_reads_the_rows_that_the_package_writes(shared_server, path, run_node):
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users, tasks) as state:
        await state.synced()
        changes = state.changes()
        assert await asyncio.to_thread(run_node, "write") == 9
        await state.wait_for_txid("last")
        assert dict(state[users]) == {"1": User("1", "Ada L."), "3": User("3", "Grüße 👍")}
        assert dict(state[tasks]) == {"7": Task(7, "write"), "9": Task(9, "test")}
    seen = [change async for change in changes]
    assert all(isinstance(change, RowChanged) for change in seen)
    last = seen[-1]
    assert isinstance(last, RowChanged)
    assert (last.operation, last.message.operation, last.message.origin) == ("insert", "upsert", "node")
    with Streams(shared_server.url) as blocking:
        assert load_state(blocking, path, tasks)[tasks] == {"7": Task(7, "write"), "9": Task(9, "test")}


async def test_python_reads_a_row_with_a_number_as_its_key_that_the_package_has_edited(shared_server, path, run_node):
    """StreamDB replaces the key in the row by its text."""
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, tasks) as state:
        await state.insert(tasks, Task(7, "write"))
        assert await asyncio.to_thread(run_node, "edit", "7", "rewrite") == "7"
        await state.wait_for_txid("edited")
        assert dict(state[tasks]) == {"7": Task(7, "rewrite")}
        written = (await streams.read_json(path))[-1]["value"]
    # The guide lists them. If this fails, the package has changed: update both.
    assert written.keys() - {"id", "title"} == {"_seq", "$synced", "$origin", "$key", "$collectionId"}


async def test_the_database_of_the_package_merges_updates(shared_server, path, run_node):
    """The guide says so. If this test fails, the package is corrected: update both."""
    async with AsyncStreams(shared_server.url) as streams, AsyncState(streams, path, users) as state:
        await state.insert(users, User("1", "Ada", ["x"]))
        await state.update(users, User("1", "Ada L."), txid="done")
        await state.wait_for_txid("done")
        assert dict(state[users]) == {"1": User("1", "Ada L.")}
    assert (await asyncio.to_thread(run_node, "materialized"))["rows"]["user"] == {"1": {"id": "1", "name": "Ada L."}}
    database = await asyncio.to_thread(run_node, "database")
    assert database["users"] == {"1": {"id": "1", "name": "Ada L.", "tags": ["x"]}}


def test_python_follows_the_control_messages_that_the_package_knows(shared_server, path, run_node):
    assert run_node("control") == 6
    with Streams(shared_server.url) as streams:
        assert load_state(streams, path, users)[users] == {"c": User("c", "c")}
    assert run_node("materialized") == {
        "rows": {"user": {"c": {"id": "c", "name": "c"}}},
        "controls": ["snapshot-start", "snapshot-end", "reset"],
    }


def test_the_lock_file_of_the_package_pins_packages_and_no_registry():
    assert_pinned(Path(__file__).parent)
