"""`/v1/sessions`: who is connected, and disconnecting them."""

import asyncio

import pytest

from mainstem import limits
from mainstem.testing.clock import FakeClock
from tests.support.sync_peers import ConnectionEnded, Peers, draft, ids_of
from tests.support.waits import eventually_async

START = "2023-11-14T22:13:20.000Z"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def server(start_thread, clock):
    return start_thread(store="memory", clock_us=clock)


@pytest.fixture
def http(server, connect_to):
    return connect_to(server)


async def list_sessions(http, **params) -> list[dict]:
    reply = await asyncio.to_thread(http.get, "/v1/sessions", params=params)
    assert reply.status_code == 200, reply.text
    assert reply.headers["cache-control"] == "no-store"
    return reply.json()["sessions"]


async def disconnect(http, number) -> int:
    return (await asyncio.to_thread(http.delete, f"/v1/sessions/{number}")).status_code


async def read_end(peer) -> ConnectionEnded:
    """Return how the connection ends. Nothing may come before that."""
    with pytest.raises(ConnectionEnded) as ended:
        raise AssertionError(await peer.next())
    return ended.value


async def test_without_connections_the_list_is_empty(http):
    reply = await asyncio.to_thread(http.get, "/v1/sessions")
    assert reply.json() == {"sessions": [], "truncated": False}


async def test_a_session_is_described(server, http, clock):
    async with Peers(server.address) as peers:
        reader = await peers.join("a", "b", client_id="reader")
        clock.advance(60)
        writer = await peers.join(client_id="writer")
        await writer.commit(draft("a"), draft("a"), draft("c"))
        await reader.next_broadcasts(2)
        first, second = await list_sessions(http)
        assert second.pop("session") > first.pop("session")
        assert first == {
            "client_id": "reader",
            "subject": None,
            "address": "127.0.0.1",
            "connected_at": START,
            "admin": True,
            "allowed_partitions": [],
            "allowed_partition_prefixes": [],
            "expires_at": None,
            "subscriptions": ["a", "b"],
            "subscription_count": 2,
            "submitted": 0,
            "received": 2,
            "outbox_bytes": 0,
        }
        assert (second["client_id"], second["submitted"], second["received"]) == ("writer", 3, 0)
        assert second["connected_at"] == "2023-11-14T22:14:20.000Z"
    await eventually_async(lambda: list_sessions_are_gone(http), "the sessions end")


async def list_sessions_are_gone(http) -> bool:
    return await list_sessions(http) == []


async def test_a_client_that_has_not_connected_yet_has_no_name(server, http):
    async with Peers(server.address) as peers:
        await peers.dial()
        (session,) = await list_sessions(http)
        assert (session["client_id"], session["admin"], session["address"]) == (None, False, "127.0.0.1")


async def test_events_that_a_reader_reads_from_the_log_count_as_received(server, http):
    async with Peers(server.address) as peers:
        reader, writer = await peers.join(client_id="reader"), await peers.join()
        await writer.commit(draft("a"))
        # During a cycle of pages nothing is broadcast; at its end the feed reads the rest from the log.
        await writer.commit_many("b", limits.SYNC_PAGE_MIN + 1)
        page = await reader.sync(["b"], limit=limits.SYNC_PAGE_MIN, subscription_partitions=["a"])
        assert page["has_more"]
        late = await writer.commit(draft("a"))
        assert (await list_sessions(http, limit=1))[0]["received"] == 0
        await reader.sync(["b"], page["next_since_committed_id"], limit=limits.SYNC_PAGE_MIN)
        assert ids_of(await reader.next_broadcasts(1)) == late
        assert (await list_sessions(http, limit=1))[0]["received"] == 1


async def test_the_lists_of_names_are_short_and_counted(server, http, monkeypatch):
    monkeypatch.setattr(limits, "LISTED_SESSION_NAMES", 3)
    async with Peers(server.address) as peers:
        await peers.join(*"edcba")
        (session,) = await list_sessions(http)
        assert (len(session["subscriptions"]), session["subscription_count"]) == (3, 5)


async def test_many_sessions_are_listed_in_pages(server, http):
    async with Peers(server.address) as peers:
        for _ in range(5):
            await peers.join()
        numbers = [session["session"] for session in await list_sessions(http)]
        assert numbers == sorted(numbers)
        assert len(numbers) == 5
        page = (await asyncio.to_thread(http.get, "/v1/sessions", params={"limit": 3})).json()
        assert [session["session"] for session in page["sessions"]] == numbers[:3]
        assert page["truncated"]
        rest = (await asyncio.to_thread(http.get, "/v1/sessions", params={"after": numbers[2], "limit": 2})).json()
        assert [session["session"] for session in rest["sessions"]] == numbers[3:]
        assert not rest["truncated"]


async def test_a_disconnected_session_ends_without_an_error_and_may_connect_again(server, http):
    async with Peers(server.address) as peers:
        peer, other = await peers.join("a", client_id="ann"), await peers.join("a")
        number = (await list_sessions(http))[0]["session"]
        assert await disconnect(http, number) == 204
        ended = await read_end(peer)
        assert (ended.code, ended.reason) == (1008, "disconnected by an administrator")
        await eventually_async(lambda: has_left(http, number), "the session is gone")
        assert await disconnect(http, number) == 404
        again = await peers.join("a", client_id="ann")
        ids = await again.commit(draft("a"))
        assert ids_of(await other.next_broadcasts(1)) == ids


async def has_left(http, number: int) -> bool:
    return number not in [session["session"] for session in await list_sessions(http)]


async def test_a_client_that_has_not_connected_yet_can_be_disconnected(server, http):
    async with Peers(server.address) as peers:
        peer = await peers.dial()
        (session,) = await list_sessions(http)
        assert await disconnect(http, session["session"]) == 204
        assert (await read_end(peer)).code == 1008


async def test_what_a_disconnected_session_had_submitted_is_answered_and_nothing_later_is_accepted(server, http):
    async with Peers(server.address) as peers:
        peer = await peers.join()
        [number] = [session["session"] for session in await list_sessions(http)]
        await peer.commit(draft("a"))
        assert await disconnect(http, number) == 204
        await peer.send("submit_events", {"events": [draft("a")]})
        assert (await read_end(peer)).code == 1008
        events = (await asyncio.to_thread(http.get, "/v1/partition/a")).json()
        assert len(events) == 1


async def test_a_client_that_does_not_read_is_disconnected_all_the_same(server, http, monkeypatch):
    monkeypatch.setattr(limits, "GOODBYE_S_MAX", 0.2)
    async with Peers(server.address) as peers:
        await peers.join("a", client_id="slow", receive_bytes=4096)
        writer = await peers.join()
        for _ in range(20):
            await writer.commit_many("a", 100, {"text": "x" * 2_000})
        slow = (await list_sessions(http))[0]
        assert slow["client_id"] == "slow"
        assert slow["outbox_bytes"] > limits.SEND_QUEUE_BYTES_MAX
        assert await disconnect(http, slow["session"]) == 204
        await eventually_async(lambda: has_left(http, slow["session"]), "the session is gone")


@pytest.mark.parametrize("number", ["0", "999999999", "-1", "x", "1.0", "", "%31", "9" * 40, "1/2", "<script>"])
async def test_a_session_that_does_not_exist_is_404(http, number):
    refused = await asyncio.to_thread(http.delete, f"/v1/sessions/{number}")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after=x", "after=-1", "after=1&after=2"])
async def test_invalid_parameters_get_400(http, query):
    refused = await asyncio.to_thread(http.get, "/v1/sessions?" + query)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")


async def test_other_methods_are_refused(http):
    for method, url in [("POST", "/v1/sessions"), ("DELETE", "/v1/sessions"), ("GET", "/v1/sessions/1")]:
        assert (await asyncio.to_thread(http.request, method, url)).status_code == 405


async def test_the_page_of_another_site_may_not_see_or_end_sessions(http):
    evil = {"origin": "https://evil.example"}
    for method, url in [("GET", "/v1/sessions"), ("DELETE", "/v1/sessions/1")]:
        refused = await asyncio.to_thread(http.request, method, url, headers=evil)
        assert (refused.status_code, refused.json()["code"]) == (403, "origin_not_allowed")


async def test_behind_a_proxy_the_address_is_that_of_the_client(server, http):
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\n{key}"
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        forwarded = "X-Forwarded-For: 10.9.8.7, 203.0.113.9\r\n"
        writer.write(f"GET /v1/sync HTTP/1.1\r\nHost: localhost\r\n{forwarded}{upgrade}\r\n".encode())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        (session,) = await list_sessions(http)
        assert session["address"] == "203.0.113.9"
    finally:
        writer.close()
        await writer.wait_closed()
