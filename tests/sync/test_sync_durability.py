"""Results, broadcasts and pages contain only durable events (seed 000: MUST only be sent after durable persist)."""

import asyncio
from collections.abc import Iterator

import pytest

from mainstem.log.store import SqliteStore
from mainstem.server.settings import Settings
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.server_thread import ServerThread
from tests.support.sync_peers import Peers, draft, ids_of


@pytest.fixture
def server(tmp_path, disk: FaultyDisk) -> Iterator[ServerThread]:
    """A server on a disk that can fail."""
    store = SqliteStore(tmp_path / "data", disk)
    with ServerThread(Settings(port=0), store=store) as server:
        yield server
        disk.heal()


async def test_nothing_is_sent_before_the_disk_has_synced(server, disk, room):
    """The second of two in flight waits until the first is durable."""
    async with Peers(server.address) as peers:
        origin, rival, watcher = await peers.join(), await peers.join(), await peers.join(room)
        item = draft(room)
        disk.hold_syncs()
        await origin.send("submit_events", {"events": [item]})
        await asyncio.to_thread(disk.wait_for_sync)
        await rival.send("submit_events", {"events": [item]})
        assert await watcher.flush() == [], "a broadcast had an event that could still be lost"
        page = await watcher.sync([room])
        assert page["events"] == []
        reading = [asyncio.create_task(peer.next_of("submit_events_result")) for peer in (origin, rival)]
        assert await watcher.flush() == []
        assert not any(task.done() for task in reading), "a result had an event that could still be lost"
        disk.heal()
        first, second = [(await task)["results"] for task in reading]
        assert first == second
        assert ids_of(await watcher.next_broadcasts(1)) == ids_of(first)
        assert first[0]["committed_id"] > page["sync_to_committed_id"]
        assert await watcher.flush() == []


async def test_a_sync_waits_for_the_submits_before_it(server, disk, room):
    async with Peers(server.address) as peers:
        peer = await peers.join()
        disk.hold_syncs()
        await peer.send("submit_events", {"events": [draft(room)]})
        await peer.ask_sync([room])
        await asyncio.to_thread(disk.wait_for_sync)
        disk.heal()
        results = (await peer.next_of("submit_events_result"))["results"]
        assert ids_of((await peer.next_of("sync_response"))["events"]) == ids_of(results)


async def test_a_full_disk_is_rate_limited_broadcasts_nothing_and_uses_no_id(server, disk, room):
    async with Peers(server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        [before] = await peer.commit(draft(room))
        item = draft(room)
        disk.fill_up()
        await peer.send("submit_events", {"events": [item]}, msg_id="full")
        reply = await peer.next()
        assert (reply["type"], reply["msg_id"]) == ("error", "full")
        assert reply["payload"]["code"] == "rate_limited"
        assert reply["payload"]["details"]["retry_after_ms"] > 0
        assert ids_of(await watcher.next_broadcasts(1)) == [before]
        assert await watcher.flush() == []
        disk.heal()
        assert await peer.commit(item) == [before + 1]
        assert ids_of(await watcher.next_broadcasts(1)) == [before + 1]


async def test_what_was_sent_is_there_after_a_power_failure(server, disk, room, tmp_path):
    async with Peers(server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        items = [draft(room) for _ in range(3)]
        told = await peer.submit(*items)
        await watcher.next_broadcasts(3)
    disk.lose_power(tmp_path / "after")
    with ServerThread(Settings(port=0, data=str(tmp_path / "after"))) as again:
        async with Peers(again.address) as peers:
            peer = await peers.join()
            assert ids_of((await peer.sync([room]))["events"]) == ids_of(told)
            assert await peer.submit(*items) == told
