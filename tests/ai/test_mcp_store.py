"""The event store for MCP, called as the SDK calls it, and a real Mainstem server that keeps its events."""

import asyncio
import sys
from typing import Any

import pytest
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from mainstem import limits
from mainstem.ai.mcp import DurableEventStore
from mainstem.client import AsyncStreams
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess

HOSTILE = [
    "",
    "1",
    "no such event",
    "../../x:1:0000000000000000_0000000000000000:0",
    "{session}:1:-1:0",
    "{session}:1:now:0",
    "{session}:1:9999999999999999_9999999999999999:0",
    "{session}:1:0000000000000000_0000000000000001:0",
    "{session}:%2e%2e%2f:0000000000000000_0000000000000000:0",
    "{session}:1:0000000000000000_0000000000000000:-1",
    f"{{session}}:{'x' * 1024}:0000000000000000_0000000000000000:0",
    "{session}:unknown:0000000000000000_0000000000000000:0",
    "{session}:1:0000000000000000_0000000000000000:0\n",
    "other:1:0000000000000000_0000000000000000:0",
    "x" * 100_000,
]


def progress(number: int) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={"progress": number})


class Enough(Exception):
    pass


async def replay(store: DurableEventStore, event_id: str, number: int = 0) -> list[EventMessage]:
    """Return what follows an event: so many messages, or all up to the end of the replay."""
    sent: list[EventMessage] = []

    async def send(message: EventMessage) -> None:
        sent.append(message)
        if len(sent) == number:
            raise Enough

    async with asyncio.timeout(30):
        try:
            await store.replay_events_after(event_id, send)
        except Enough:
            pass
    return sent


async def replay_messages(store: DurableEventStore, event_id: str, number: int = 0) -> list[Any]:
    return [event.message for event in await replay(store, event_id, number)]


@pytest.mark.parametrize("event_id", HOSTILE, ids=range(len(HOSTILE)))
async def test_ids_that_the_store_has_not_made(shared_server: ServerProcess, event_id: str) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/hostile", session="s1")
        await store.store_event("1", progress(1))
        assert await replay(store, event_id.replace("{session}", "s1")) == []


def answer(id: str) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result={"none": None})


async def test_events_outlive_the_servers(start_on_fixed_port: StartServer) -> None:
    server = start_on_fixed_port()
    odd = "a/ü:1"
    async with AsyncStreams(server.url) as streams:
        store = DurableEventStore(streams, session="s1")
        first = await store.store_event(odd, None)
        other = await store.store_event("..", None)
        await store.store_event(odd, progress(1))
        await store.store_event("..", progress(7))
        await store.store_event(odd, answer("another request"))
        await store.store_event(odd, answer(odd))
        await store.store_event("..", answer(".."))
    server.kill()
    server.start()
    async with AsyncStreams(server.url) as streams:
        store = DurableEventStore(streams, session="s1")
        events = await replay(store, first)
        assert [event.message for event in events] == [progress(1), answer("another request"), answer(odd)]
        assert events[0].event_id is not None
        assert await replay_messages(store, events[0].event_id) == [answer("another request"), answer(odd)]
        assert await replay_messages(store, other) == [progress(7), answer("..")]
        assert await replay(DurableEventStore(streams, session="s2"), first) == []


async def test_the_id_of_a_first_message_that_is_not_stored_leads_to_the_second_one(
    start_on_fixed_port: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_on_fixed_port()
    server.kill()
    async with AsyncStreams(server.url) as streams:
        store = DurableEventStore(streams, session="s1")
        with monkeypatch.context() as patched:
            patched.setattr(limits, "MCP_STORE_S", 0.1)
            with pytest.raises(TimeoutError):
                await store.store_event("1", None)
            id = await store.store_event("1", progress(1))
        server.start()
        await store.store_event("1", answer("1"))
        assert await replay_messages(store, id) == [answer("1")]


async def test_concurrent_events_have_ids_of_their_own(shared_server: ServerProcess) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/concurrent", session="s1")
        ids = await asyncio.gather(*(store.store_event("1", progress(number)) for number in range(20)))
        await store.store_event("1", answer("1"))
        assert len(set(ids)) == 20
        for number, id in enumerate(ids):
            following = await replay_messages(store, id)
            assert progress(number) not in following
            assert len(following) == 20 - sorted(ids).index(id)


async def test_a_client_that_resumes_a_stream_again_ends_its_earlier_connection(shared_server: ServerProcess) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/again", session="s1")
        id = await store.store_event("1", None)
        first, second = [asyncio.create_task(replay_messages(store, id)) for _ in range(2)]
        assert await first == []
        await store.store_event("1", answer("1"))
        assert await second == [answer("1")]


async def test_a_session_resumes_a_limited_number_of_streams(
    shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MCP_REPLAYS_MAX", 2)
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/many", session="s1")
        ids = [await store.store_event(stream, None) for stream in "123"]
        oldest, *others = [asyncio.create_task(replay_messages(store, id)) for id in ids]
        assert await oldest == []
        for stream in "23":
            await store.store_event(stream, answer(stream))
        assert await asyncio.gather(*others) == [[answer("2")], [answer("3")]]


async def test_a_replay_ends_after_its_time_and_can_go_on(
    shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/time", session="s1")
        id = await store.store_event("1", None)
        with monkeypatch.context() as patched:
            patched.setattr(limits, "MCP_REPLAY_S", 0.1)
            assert await replay(store, id) == []
        await store.store_event("1", answer("1"))
        assert await replay_messages(store, id) == [answer("1")]


async def test_the_latest_responses_that_cannot_be_stored_are_kept(
    shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MCP_UNSTORED_MAX", 1)
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/unstored", session="s1")
        ids = [await store.store_event(stream, progress(1)) for stream in "12"]
        for stream in "12":
            await streams.close(f"mcp/unstored/s1/request-{stream}")
            await store.store_event(stream, answer(stream))
        assert [await replay_messages(store, id) for id in ids] == [[], [answer("2")]]


async def test_streams_expire_and_are_made_again(shared_server: ServerProcess) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        store = DurableEventStore(streams, "mcp/expiry", ttl_s=90, session="s1")
        old = await store.store_event("1", progress(1))
        path = "mcp/expiry/s1/request-1"
        assert (await streams.head(path)).ttl_s == 90
        await streams.delete(path)
        assert await replay(store, old) == []
        new = await store.store_event("1", progress(2))
        later = DurableEventStore(streams, "mcp/expiry", ttl_s=60, session="s1")  # the stream keeps its TTL
        await later.store_event("1", progress(3))
        assert await replay_messages(store, new, 1) == [progress(3)]


async def test_a_store_that_does_not_know_the_session_refuses_to_store(shared_server: ServerProcess) -> None:
    async with AsyncStreams(shared_server.url) as streams:
        with pytest.raises(RuntimeError, match=r"store\.wrap\(app\)"):
            await DurableEventStore(streams).store_event("1", None)
        with pytest.raises(ValueError, match="must be 1 to 128"):
            DurableEventStore(streams, session="../x")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http", None)
    monkeypatch.delitem(sys.modules, "mainstem.ai.mcp")
    with pytest.raises(ImportError, match=r"pip install 'mainstem\[mcp\]'"):
        import mainstem.ai.mcp  # noqa: F401
