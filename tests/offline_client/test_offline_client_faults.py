"""Killed servers, faulty networks, clock jumps, full disks, killed clients: no event is lost or stored twice."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainstem import limits
from mainstem.client.core.retries import Retries
from mainstem.client.offline import (
    EventsCommitted,
    MemoryClientStore,
    OfflineClient,
    SqliteClientStore,
    State,
    StoreFailed,
    StoreFull,
)
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.server import ServerProcess, start_process
from tests.offline_client.waiting import WAIT_S_MAX, next_of, until, until_events, until_offline
from tests.offline_client.wires import Wire, read_truth

QUICK = Retries(attempts_max=None, delay_s=0.02, delay_s_max=0.2)
NOWHERE = "ws://127.0.0.1:9/v1/sync"


def total(state, event):
    return state + event.event["n"]


async def assert_exactly_once(client: OfflineClient, url: str, partition: str, numbers: list[int]) -> None:
    """Assert that the server has each event once, and the client has the same events in the same order."""
    truth = await read_truth(url, partition)
    assert sorted(event["event"]["n"] for event in truth) == sorted(numbers)
    assert len({event["id"] for event in truth}) == len(truth)
    copy: list[tuple[int, Any]] = []
    while page := await client.events(partition, after=copy[-1][0] if copy else 0, drafts=False):
        copy += [(event.committed_id or 0, event.id) for event in page]
    assert copy == [(event["committed_id"], event["id"]) for event in truth]


# Killed servers


@pytest.mark.slow
async def test_10_000_offline_drafts_are_committed_exactly_once_while_the_server_is_killed_three_times(
    start_on_fixed_port, tmp_path
):
    server = start_on_fixed_port()
    path = tmp_path / "ada.db"
    async with OfflineClient(NOWHERE, client_id="ada", store=path, partitions=["p"]) as client:
        await asyncio.gather(*(client.submit(["p"], {"n": n}) for n in range(10_000)))
        assert len(await client.drafts()) == 10_000
    async with OfflineClient(server.url, client_id="ada", store=path, retries=QUICK) as client:
        client.register_view("total", total, 0)
        changes = client.changes()
        for mark in (2_000, 5_000, 8_000):
            while 10_000 - client.waiting < mark:
                await next_of(changes, EventsCommitted)
            await asyncio.to_thread(server.kill)
            await until_offline(client)
            assert await client.view("total") == sum(range(10_000)), "the view must not depend on the connection"
            await asyncio.to_thread(server.start)
        async with asyncio.timeout(60):
            await client.synced()
        await assert_exactly_once(client, server.url, "p", list(range(10_000)))
        assert [event["event"]["n"] for event in await read_truth(server.url, "p")] == list(range(10_000))
        assert await client.view("total") == sum(range(10_000))


CALLS = {
    "submit": lambda client: client.submit(["p"], {"n": 1_000}),
    "submit to another partition": lambda client: client.submit(["q"], {"n": 1_000}),
    "outcome": lambda client: client.outcome("first"),
    "synced": lambda client: client.synced(),
    "view": lambda client: client.view("total"),
    "events": lambda client: client.events("p"),
    "drafts": lambda client: client.drafts(),
    "rejections": lambda client: client.rejections(),
    "dismiss": lambda client: client.dismiss("none"),
    "snapshot": lambda client: client.snapshot("p"),
    "add_partition": lambda client: client.add_partition("q"),
    "remove_partition": lambda client: client.remove_partition("q"),
    "changes": lambda client: next_of(client.changes(), EventsCommitted),
    "close": lambda client: client.close(),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
async def test_a_server_killed_during_a_call_loses_nothing(start_on_fixed_port, tmp_path, call):
    server = start_on_fixed_port()
    path = tmp_path / "ada.db"
    async with OfflineClient(server.url, client_id="ada", store=path, partitions=["p"], retries=QUICK) as client:
        client.register_view("total", total, 0)
        await client.synced()
        first = asyncio.create_task(client.submit(["p"], {"n": 0}, id="first"))
        await first
        rest = [client.submit(["p"], {"n": n}) for n in range(1, 300)]
        calling = asyncio.create_task(CALLS[call](client))
        await asyncio.gather(asyncio.to_thread(server.kill), *rest, return_exceptions=call == "close")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(WAIT_S_MAX):
            await calling
    async with OfflineClient(server.url, client_id="ada", store=path, retries=QUICK) as client:
        async with asyncio.timeout(WAIT_S_MAX):
            await client.synced()
        truth = await read_truth(server.url, "p")
        numbers = {event["event"]["n"] for event in truth}
        if call != "close":  # a submit during the close raises an error, and its draft is not stored
            assert set(range(300)) <= numbers
        await assert_exactly_once(client, server.url, "p", sorted(numbers))
        assert (1_000 in numbers) == (call == "submit")


async def test_a_result_that_is_lost_with_the_server_arrives_later(start_on_fixed_port, tmp_path):
    """The server is killed after the commit and before the reply."""
    server = start_on_fixed_port()
    async with Wire(server.address) as wire:
        store = tmp_path / "ada.db"
        async with OfflineClient(wire.url, client_id="ada", store=store, partitions=["p"], retries=QUICK) as client:
            await client.synced()

            def lose_the_result(data: bytes) -> bool:
                if b"submit_events_result" in data:
                    server.kill()
                    wire.watch = None
                    return True
                return False

            wire.watch = lose_the_result
            draft = await client.submit(["p"], {"n": 1})
            await until_offline(client)
            assert wire.watch is None
            assert [kept.id for kept in await client.drafts()] == [draft.id]
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(WAIT_S_MAX):
                await draft.committed()
                await client.synced()
            await assert_exactly_once(client, server.url, "p", [1])


# Faulty networks


@pytest.mark.parametrize("fault", ["slow", "cut", "corrupt"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_bad_network_loses_nothing(shared_server, room, monkeypatch, fault, seed):
    monkeypatch.setattr(limits, "OFFLINE_HEARTBEAT_S", 0.2)
    monkeypatch.setattr(limits, "OFFLINE_SILENCE_S_MAX", 1.0)  # a corrupt length announces a frame that never ends
    async with Wire(shared_server.address, seed) as wire:
        wire.fault = fault
        clients = [
            OfflineClient(
                wire.url, client_id=f"{name}-{room}", store=MemoryClientStore(), partitions=[room], retries=QUICK
            )
            for name in ("ada", "bob")
        ]
        async with clients[0] as ada, clients[1] as bob:
            await asyncio.gather(*(client.submit([room], {"n": n}) for n, client in enumerate([ada, bob] * 100)))

            async def suffered():
                return wire.faults >= 8

            if fault != "slow":
                await until(ada, suffered)
                wire.fault = None
            async with asyncio.timeout(WAIT_S_MAX):
                await asyncio.gather(ada.synced(), bob.synced())
            assert wire.faults >= 8
            for client in (ada, bob):
                await until_events(client, room, 200)
                await assert_exactly_once(client, shared_server.url, room, list(range(200)))


async def test_a_server_that_accepts_a_connection_and_says_nothing_is_given_up(monkeypatch):
    """The server accepts connections and does nothing else."""
    monkeypatch.setattr(limits, "OFFLINE_OPEN_S_MAX", 0.1)
    held = []
    server = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/sync"
    async with OfflineClient(url, client_id="a", store=MemoryClientStore(), retries=QUICK) as client:
        error = await until_offline(client)
        assert error.retryable
        await client.submit(["p"], {"n": 1})
    server.close()
    for writer in held:
        writer.transport.abort()


async def test_silence_in_the_middle_of_a_connection_is_noticed(shared_server, room, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_HEARTBEAT_S", 0.1)
    monkeypatch.setattr(limits, "OFFLINE_SILENCE_S_MAX", 1.0)
    async with Wire(shared_server.address) as wire:
        store = MemoryClientStore()
        async with OfflineClient(wire.url, client_id=room, store=store, partitions=[room], retries=QUICK) as client:
            await client.synced()
            connections = wire.connections
            answers = asyncio.Semaphore(0)

            def count_answers(data: bytes) -> bool:
                if b"heartbeat_ack" in data:
                    answers.release()
                return False

            wire.watch = count_answers
            for _ in range(12):  # longer than the limit for silence: an idle connection must survive
                await answers.acquire()
            assert wire.connections == connections
            stopped = asyncio.Event()

            async def swallow(writer, data, *, slowly):
                stopped.set()

            monkeypatch.setattr(wire, "_write", swallow)
            await client.add_partition(f"{room}-other")
            error = await until_offline(client)
            assert stopped.is_set()
            assert error.code == "server_silent"
            assert client._connector._page_limit == limits.OFFLINE_PAGE // 2


# Clocks


async def test_clocks_that_jump_change_nothing(shared_server, room, monkeypatch):
    """Order comes from the draft clock and the server's log, and delays from the event loop, not the time of day."""
    jumps = itertools.cycle([0.0, 4e9, -1e9, 1.0, 2e9])
    monkeypatch.setattr(time, "time", lambda: 1.7e9 + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int((1.7e9 + next(jumps)) * 1e9))
    store = MemoryClientStore()
    async with OfflineClient(shared_server.url, client_id=room, store=store, partitions=[room]) as client:
        for n in range(20):
            await client.submit([room], {"n": n})
        async with asyncio.timeout(WAIT_S_MAX):
            await client.synced()
        assert [event.event["n"] for event in await client.events(room)] == list(range(20))


JUMPING = """
import itertools
from mainstem.server import app

jumps = itertools.cycle([5 * 10**14, 10**15, -(10**15), -(5 * 10**14), 8 * 10**14])
real = app.wall_clock_us
app.Mainstem.__init__.__kwdefaults__["clock_us"] = lambda: real() + next(jumps)
from mainstem.cli import main

main(prog_name="mainstem")
"""


async def test_a_jump_of_the_servers_clock_changes_nothing(tmp_path, monkeypatch):
    launch = partial(start_process, command=[sys.executable, "-c", JUMPING, "serve"])
    monkeypatch.setattr(ServerProcess, "launch", staticmethod(launch))
    with ServerProcess(tmp_path / "data") as server:
        store = MemoryClientStore()
        async with OfflineClient(server.url, client_id="a", store=store, partitions=["p"]) as client:
            for n in range(20):
                await client.submit(["p"], {"n": n})
            async with asyncio.timeout(WAIT_S_MAX):
                await client.synced()
            await assert_exactly_once(client, server.url, "p", list(range(20)))
            years = [int(event.committed_at[:4]) for event in await client.events("p")]
            assert all(abs(year - time.gmtime().tm_year) > 10 for year in years), "the clock must have jumped"


# Full and failing disks


async def test_a_full_disk_refuses_drafts_until_there_is_space(shared_server, room, tmp_path, disk: FaultyDisk):
    store = SqliteClientStore(tmp_path / "ada.db", vfs=disk.name)
    async with OfflineClient(
        shared_server.url, client_id=room, store=store, partitions=[room], retries=QUICK
    ) as client:
        client.register_view("total", total, 0)
        await client.submit([room], {"n": 1})
        await client.synced()
        disk.fill_up()
        with pytest.raises(StoreFull, match="Free space"):
            await client.submit([room], {"n": 2})
        assert await client.view("total") == 1
        assert await client.drafts() == []
        disk.heal()
        await client.submit([room], {"n": 4})
        await client.synced()
        assert await client.view("total") == 5
        await assert_exactly_once(client, shared_server.url, room, [1, 4])


async def test_a_disk_that_fills_up_while_others_write_loses_nothing(shared_server, room, tmp_path, disk: FaultyDisk):
    store = SqliteClientStore(tmp_path / "ada.db", vfs=disk.name)
    other = OfflineClient(shared_server.url, client_id=f"{room}-other", store=MemoryClientStore(), partitions=[room])
    client = OfflineClient(shared_server.url, client_id=room, store=store, partitions=[room], retries=QUICK)
    async with client, other:
        await asyncio.gather(client.synced(), other.synced())
        disk.fill_up(after_writes=3)
        await asyncio.gather(*(other.submit([room], {"n": n}) for n in range(100)))
        await other.synced()
        error = await until_offline(client)
        assert isinstance(error, StoreFull)
        disk.heal()
        async with asyncio.timeout(WAIT_S_MAX):
            await client.synced()
        await until_events(client, room, 100)
        await assert_exactly_once(client, shared_server.url, room, list(range(100)))


async def test_after_a_failed_sync_nothing_is_written_until_the_store_is_opened_again(
    shared_server, room, tmp_path, disk: FaultyDisk
):
    path = tmp_path / "ada.db"
    store = SqliteClientStore(path, vfs=disk.name)
    async with OfflineClient(NOWHERE, client_id=room, store=store, partitions=[room]) as client:
        kept = await client.submit([room], {"n": 1})
        disk.fail_syncs()
        with pytest.raises(StoreFailed, match="open the store again"):
            await client.submit([room], {"n": 2})
        disk.heal()
        with pytest.raises(StoreFailed):
            await client.submit([room], {"n": 4})
        assert kept.id in [draft.id for draft in await client.drafts()]
    async with OfflineClient(shared_server.url, client_id=room, store=path, partitions=[room]) as client:
        await client.submit([room], {"n": 4})
        await client.synced()
        numbers = [event["event"]["n"] for event in await read_truth(shared_server.url, room)]
        assert numbers in ([1, 4], [1, 2, 4]), "the draft in doubt may be kept or lost, but is never there twice"


async def test_a_store_that_fails_during_a_connection_stops_the_client_and_is_reported(
    shared_server, room, tmp_path, disk: FaultyDisk, monkeypatch
):
    store = SqliteClientStore(tmp_path / "ada.db", vfs=disk.name)
    other = OfflineClient(shared_server.url, client_id=f"{room}-other", store=MemoryClientStore(), partitions=[room])
    async with OfflineClient(shared_server.url, client_id=room, store=store, partitions=[room]) as client, other:
        await client.synced()
        monkeypatch.setattr(client._connector, "send_drafts", lambda: None)  # so that this stays a draft
        await client.submit([f"{room}-elsewhere"], {"n": 0}, id="lasting")
        waiting = asyncio.create_task(client.outcome("lasting"))
        disk.fail_syncs()
        await other.submit([room], {"n": 1})
        error = await until_offline(client)
        assert isinstance(error, StoreFailed)
        with pytest.raises(StoreFailed):
            await client.synced()
        with pytest.raises(StoreFailed):
            async with asyncio.timeout(WAIT_S_MAX):
                await waiting
        with pytest.raises(StoreFailed):
            await client.outcome("lasting")
        disk.heal()
    async with OfflineClient(shared_server.url, client_id=room, store=tmp_path / "ada.db") as client:
        await client.synced()
        await assert_exactly_once(client, shared_server.url, room, [1])


async def test_submit_has_synced_the_disk_when_it_returns(tmp_path, disk: FaultyDisk):
    store = SqliteClientStore(tmp_path / "ada.db", vfs=disk.name)
    async with OfflineClient(NOWHERE, client_id="a", store=store, partitions=["p"]) as client:
        ids = [(await client.submit(["p"], {"n": n})).id for n in range(5)]
        disk.lose_power(tmp_path / "after")
    async with OfflineClient(NOWHERE, client_id="a", store=tmp_path / "after" / "ada.db") as client:
        assert [draft.id for draft in await client.drafts()] == ids


# Client processes

WRITER = """
import asyncio, sys
from mainstem.client.offline import OfflineClient

async def main(url, path):
    async with OfflineClient(url, client_id="ada", store=path, partitions=["p"]) as client:
        print("open", flush=True)
        for n in range(100_000):
            await client.submit(["p"], {"n": n})
            print(n, flush=True)

try:
    asyncio.run(main(*sys.argv[1:]))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def start_writer(url: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, url, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_a_second_process_on_one_store_is_refused_and_the_first_continues(tmp_path):
    path = tmp_path / "ada.db"
    async with OfflineClient(NOWHERE, client_id="ada", store=path, partitions=["p"]) as client:
        second = start_writer(NOWHERE, path)
        said, error = await asyncio.to_thread(second.communicate)
        assert second.returncode == 1
        assert said == ""
        assert f"(process {os.getpid()})" in error
        assert "use another file" in error
        assert "Traceback" not in error
        await client.submit(["p"], {"n": 1})


async def test_a_client_killed_while_it_submits_and_syncs_loses_nothing(start_on_fixed_port, tmp_path):
    server = start_on_fixed_port()
    path = tmp_path / "ada.db"
    promised = 0
    for turn in range(2):
        writer = start_writer(server.url, path)
        assert writer.stdout is not None
        lines = 0
        while lines < 40 + 30 * turn:
            await asyncio.to_thread(writer.stdout.readline)
            lines += 1
        writer.send_signal(signal.SIGKILL)
        rest = await asyncio.to_thread(writer.stdout.read)  # communicate() would skip what is buffered
        await asyncio.to_thread(writer.communicate)
        promised += lines - 1 + rest.count("\n")
    async with OfflineClient(server.url, client_id="ada", store=path) as client:
        await client.synced()
        truth = await read_truth(server.url, "p")
        # Each run may have stored one draft more than it reported.
        assert promised <= len(truth) <= promised + 2
        await assert_exactly_once(client, server.url, "p", [event["event"]["n"] for event in truth])
        assert client.status.state is State.LIVE
