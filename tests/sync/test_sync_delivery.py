"""Slow readers, readers that never read, rates, and stalled connections: other clients are not affected."""

import asyncio
import json
import time

import pytest

from mainstem import limits
from mainstem.testing.plugin import StartServer
from tests.support.sync_peers import BINARY, TEXT, ConnectionEnded, Peer, Peers, draft, encode_frame, envelope, ids_of

SMALL_WINDOW = 4_096


async def commit_pipelined(peer: Peer, room: str, requests: int, event: dict) -> list[int]:
    """Submit full batches, with two in flight at a time."""
    ids: list[int] = []
    for number in range(requests + 1):
        if number < requests:
            await peer.send("submit_events", {"events": [draft(room, event) for _ in range(100)]})
        if number > 0:
            ids += ids_of((await peer.next_of("submit_events_result"))["results"])
    return ids


async def test_a_reader_that_stops_gets_everything_later_in_order_and_once_without_slowing_others(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, brisk = await peers.join(), await peers.join(room)
        slow = await peers.join(room, receive_bytes=SMALL_WINDOW)
        reading = asyncio.create_task(brisk.next_broadcasts(4_000))
        ids = await commit_pipelined(writer, room, 40, {"pad": "x" * 1_000})
        assert ids_of(await reading) == ids, "other clients do not wait for the slow one"
        assert ids_of(await slow.next_broadcasts(4_000)) == ids
        live = await writer.commit(draft(room))
        assert ids_of(await slow.next_broadcasts(1)) == live
        assert await slow.flush() == []


async def test_a_slow_reader_does_not_get_its_own_events_from_the_log(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, slow = await peers.join(), await peers.join(room, receive_bytes=SMALL_WINDOW)
        ids = await commit_pipelined(writer, room, 20, {"pad": "x" * 1_000})
        await slow.send("submit_events", {"events": [draft(room)]}, msg_id="own")
        more = await commit_pipelined(writer, room, 2, {"pad": "x"})
        got: list[int] = []
        own: list[int] = []
        while len(got) < len(ids) + len(more) or not own:
            message = await slow.next()
            if message["type"] == "event_broadcast":
                got.append(message["payload"]["committed_id"])
            else:
                assert message["msg_id"] == "own"
                own = ids_of(message["payload"]["results"])
        assert got == ids + more
        assert await slow.flush() == []


async def test_a_slow_reader_that_syncs_meanwhile_gets_each_event_by_broadcast_or_page(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, slow = await peers.join(), await peers.join(room, receive_bytes=SMALL_WINDOW)
        ids = await commit_pipelined(writer, room, 20, {"pad": "x" * 1_000})
        await slow.ask_sync([room], ids[1_000] - 1, limit=1_000)
        before, message = [], await slow.next()
        while message["type"] == "event_broadcast":
            before.append(message["payload"]["committed_id"])
            message = await slow.next()
        page = message["payload"]
        assert ids_of(page["events"]) == ids[1_000:]
        assert not page["has_more"]
        rest = [number for number in ids[:1_000] if number not in before]
        after = ids_of(await slow.next_broadcasts(len(rest)))
        assert before + after == sorted(set(before + after)), "in order, and none twice"
        assert set(ids[:1_000]) <= set(before + after)
        live = await writer.commit(draft(room))
        assert ids_of(await slow.next_broadcasts(1)) == live


async def test_a_client_that_never_reads_does_not_affect_others(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, watcher = await peers.join(), await peers.join(room)
        deaf = await peers.join(room, receive_bytes=SMALL_WINDOW)
        reading = asyncio.create_task(watcher.next_broadcasts(3_000))
        ids = await commit_pipelined(writer, room, 30, {"pad": "x" * 1_000})
        assert ids_of(await reading) == ids
        await deaf.hang_up()
        assert ids_of((await watcher.sync([room], ids[-1] - 1))["events"]) == ids[-1:]


def peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


async def test_unread_replies_do_not_accumulate_in_memory(start_server: StartServer, room):
    """A client that requests page after page and reads none is slowed down; its pages are not buffered."""
    server = start_server()
    async with Peers(server.address) as peers:
        other = await peers.join()
        for _ in range(4):
            await other.commit(draft(room, {"pad": "x" * 500_000}))
        deaf = await peers.join(receive_bytes=SMALL_WINDOW)
        page = await other.sync([room])
        assert len(page["events"]) == 4
        before = peak_bytes(server.pid)
        ask = json.dumps(envelope("sync", {"partitions": [room], "since_committed_id": 0})).encode()
        await deaf.send_bytes(encode_frame(TEXT, ask) * 80)  # 160 MB of pages
        for _ in range(100):  # the server has had as many turns for one as for the other
            await other.sync([room])
        assert peak_bytes(server.pid) - before < 80_000_000


@pytest.mark.parametrize("binary", [False, True])
async def test_messages_above_the_rate_wait_and_none_is_refused(start_thread, monkeypatch, binary):
    monkeypatch.setattr(limits, "SYNC_MESSAGES_S_MAX", 50)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer, other = await peers.join(), await peers.join()
        frame = (
            encode_frame(BINARY, b"x") if binary else encode_frame(TEXT, json.dumps(envelope("heartbeat", {})).encode())
        )
        began_s = time.monotonic()
        await peer.send_bytes(frame * 100)
        await other.flush()
        assert time.monotonic() - began_s < 1, "no other client waits"
        for _ in range(100):
            message = await peer.next()
            assert message["type"] == ("error" if binary else "heartbeat_ack")
            assert message["payload"].get("code") in (None, "bad_request")
        assert time.monotonic() - began_s > 0.8, "50 at once, and 50 more in the next second"


async def test_the_socket_of_a_connection_that_waits_is_not_read(start_thread, monkeypatch):
    """Messages that are sent too fast stay with the sender: its socket accepts no more."""
    monkeypatch.setattr(limits, "SYNC_MESSAGES_S_MAX", 2)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer, other = await peers.join(), await peers.join()
        message = json.dumps(envelope("heartbeat", {"pad": "x" * 200_000})).encode()
        peer.writer.write(encode_frame(TEXT, message) * 200)  # 40 MB, far more than the sockets can buffer
        for _ in range(2):
            await peer.next_of("heartbeat_ack")
        await other.flush()
        assert peer.writer.transport.get_write_buffer_size() > 10_000_000


async def test_a_connection_that_never_sends_connect_is_closed(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "CONNECT_WAIT_S_MAX", 0.05)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        silent = await peers.dial()
        assert (await silent.next_error())["code"] == "auth_failed"
        assert await silent.close_code() == 1008


async def test_heartbeats_do_not_replace_connect(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "CONNECT_WAIT_S_MAX", 0.05)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer = await peers.dial()
        codes: list[str] = []
        while not codes:
            await peer.send("heartbeat", {})
            message = await peer.next()
            if message["type"] == "error":
                codes.append(message["payload"]["code"])
        assert codes == ["auth_failed"]


async def test_a_connection_beyond_the_limit_is_refused(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "SYNC_CONNECTIONS_MAX", 1)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        first = await peers.join()
        with pytest.raises((ConnectionRefusedError, ConnectionEnded)):
            await (await peers.dial()).next()
        assert await first.flush() == []


async def test_a_server_that_stops_cleanly_sends_its_clients_a_close(start_server: StartServer, room):
    server = start_server()
    async with Peers(server.address) as peers:
        peer, idle = await peers.join(room), await peers.dial()
        await peer.commit(draft(room))
        ending = asyncio.create_task(asyncio.to_thread(server.terminate))
        codes = {await peer.close_code(), await idle.close_code()}
        assert codes <= {1000, 1001, 1012}
        await ending
