"""A real MCP server with streamable HTTP, on a real port, whose events a real Mainstem server keeps."""

import asyncio
from contextlib import aclosing

import mcp
import pytest
from mcp.server.streamable_http import EventCallback
from mcp_types import JSONRPCMessage
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mainstem import limits
from mainstem.ai.mcp import DurableEventStore
from mainstem.client import AsyncStreams, Retries
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from tests.ai.mcp_serving import Gates, connect, describe, read_until, serve
from tests.support.waits import eventually_async


async def test_a_client_that_disconnects_receives_the_rest(shared_server: ServerProcess) -> None:
    gates = Gates()
    async with (
        AsyncStreams(shared_server.url) as streams,
        serve(DurableEventStore(streams, "mcp/rest"), gates) as url,
        connect(url) as (client,),
    ):
        ids, texts = await read_until(client.call(1, "a"), "a 1")
        assert texts == ["priming", "a 1"]
        gates["a"].set()
        again, rest = await read_until(client.resume(ids[-1]), "a done")
        assert rest == ["a 2", "a 3", "a done"]
        # Ids that a replay has sent are as good as the first ones, and a priming event has one too.
        assert (await read_until(client.resume(again[0]), "a done"))[1] == ["a 3", "a done"]
        assert (await read_until(client.resume(ids[0]), "a done"))[1] == ["a 1", "a 2", "a 3", "a done"]
        assert len(set(ids + again)) == len(ids + again)


async def test_a_resumed_stream_goes_on_live(shared_server: ServerProcess) -> None:
    gates = Gates()
    async with (
        AsyncStreams(shared_server.url) as streams,
        serve(DurableEventStore(streams, "mcp/live"), gates) as url,
        connect(url) as (client,),
    ):
        ids, _ = await read_until(client.call(1, "a"), "a 1")
        texts = []
        async with asyncio.timeout(30), aclosing(client.resume(ids[0])) as events:
            async for _, message in events:
                texts.append(describe(message))
                gates["a"].set()
        assert texts == ["a 1", "a 2", "a 3", "a done"]


async def test_several_streams_and_sessions_do_not_mix(shared_server: ServerProcess) -> None:
    gates = Gates()
    async with (
        AsyncStreams(shared_server.url) as streams,
        serve(DurableEventStore(streams, "mcp/mixed"), gates) as url,
        connect(url, number=2) as clients,
    ):
        seen = {}
        for number, client in enumerate(clients):
            for request in (1, 2):  # the same ids in both sessions
                name = f"{number}{request}"
                ids, _ = await read_until(client.call(request, name), f"{name} 1")
                seen[name] = ids[-1]
                gates[name].set()
        for name, id in seen.items():
            client = clients[int(name[0])]
            _, texts = await read_until(client.resume(id), f"{name} done")
            assert texts == [f"{name} 2", f"{name} 3", f"{name} done"]
        # A client that knows the id of an event of another session gets nothing.
        assert [event async for event in clients[1].resume(seen["01"])] == []


async def test_a_resumed_connection_ends_with_its_session(shared_server: ServerProcess) -> None:
    gates = Gates()
    async with (
        AsyncStreams(shared_server.url) as streams,
        serve(DurableEventStore(streams, "mcp/ended"), gates) as url,
        connect(url) as (client,),
    ):
        ids, _ = await read_until(client.call(1, "a"), "a 1")
        async with asyncio.timeout(20), aclosing(client.resume(ids[0])) as events:
            assert describe((await anext(events))[1]) == "a 1"
            assert await client.end_session() == 200
            assert [event async for event in events] == []


async def test_a_resumed_connection_goes_on_if_its_session_may_not_be_ended(shared_server: ServerProcess) -> None:
    def refuse_to_delete(app: ASGIApp) -> ASGIApp:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            await (Response(status_code=403) if scope.get("method") == "DELETE" else app)(scope, receive, send)

        return guarded

    gates = Gates()
    async with (
        AsyncStreams(shared_server.url) as streams,
        serve(DurableEventStore(streams, "mcp/refused"), gates, guard=refuse_to_delete) as url,
        connect(url) as (client,),
    ):
        ids, _ = await read_until(client.call(1, "a"), "a 1")
        async with asyncio.timeout(20), aclosing(client.resume(ids[0])) as events:
            assert describe((await anext(events))[1]) == "a 1"
            assert await client.end_session() == 403
            gates["a"].set()
            assert [describe(message) async for _, message in events] == ["a 2", "a 3", "a done"]


class RecordingStore(DurableEventStore):
    """Records the calls of the SDK, and opens a gate when a client resumes."""

    def __init__(self, streams: AsyncStreams, prefix: str, gate: asyncio.Event) -> None:
        super().__init__(streams, prefix)
        self.gate = gate
        self.calls: list[str] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self.calls.append("store")
        return await super().store_event(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> None:
        self.calls.append("replay")
        self.gate.set()
        await super().replay_events_after(last_event_id, send_callback)


async def test_the_client_of_the_sdk_resumes_in_legacy_mode(
    shared_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    gates = Gates()
    async with AsyncStreams(shared_server.url) as streams, asyncio.timeout(20):
        store = RecordingStore(streams, "mcp/legacy", gates["a"])
        async with serve(store, gates) as url, mcp.Client(url, mode="legacy") as client:
            assert client.protocol_version == "2025-11-25"
            # The tool closes the connection, and goes on when the client has resumed.
            result = await client.call_tool("poll", {"name": "a"})
    assert describe({"result": result.model_dump()}) == "a done"
    assert store.calls.count("replay") == 1
    assert "cannot resume" not in caplog.text


async def test_the_client_of_the_sdk_does_not_resume_by_default(
    shared_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    gates = Gates()
    gates["a"].set()
    async with AsyncStreams(shared_server.url) as streams, asyncio.timeout(20):
        store = RecordingStore(streams, "mcp/modern", gates["a"])
        async with serve(store, gates) as url:
            for _ in range(2):
                async with mcp.Client(url) as client:
                    assert client.protocol_version == "2026-07-28"
                    result = await client.call_tool("poll", {"name": "a"})
                    assert describe({"result": result.model_dump()}) == "a done"
    assert store.calls == []
    assert caplog.text.count("protocol version 2026-07-28, which cannot resume requests") == 1


async def test_messages_are_stored_once_the_server_is_back(
    start_on_fixed_port: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_on_fixed_port()
    gates = Gates()
    async with (
        AsyncStreams(server.url, retries=Retries(attempts_max=1)) as streams,
        serve(DurableEventStore(streams), gates) as url,
        connect(url) as (client,),
    ):
        ids, _ = await read_until(client.call(1, "a"), "a 1")
        server.kill()
        gates["a"].set()
        await eventually_async(lambda: "could not be stored yet" in caplog.text)
        server.start()
        _, texts = await read_until(client.resume(ids[-1]), "a done")
        assert texts == ["a 2", "a 3", "a done"]


async def test_a_session_goes_on_without_the_messages_that_cannot_be_stored(
    start_on_fixed_port: StartServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_on_fixed_port()
    gates = Gates()
    async with (
        AsyncStreams(server.url, retries=Retries(attempts_max=1)) as streams,
        serve(DurableEventStore(streams, session="s1"), gates) as url,
        connect(url) as (client,),
    ):
        refused = client.call(1, "a")
        (_, _), (id, _) = [await anext(refused) for _ in range(2)]
        await streams.close("mcp/s1/request-1")
        gates["a"].set()
        assert await read_until(refused, "a done") == ([id] * 3, ["a 2", "a 3", "a done"])

        missed = client.call(2, "b")
        (_, _), (id, _) = [await anext(missed) for _ in range(2)]
        server.kill()
        with monkeypatch.context() as patched:
            patched.setattr(limits, "MCP_STORE_S", 0.1)
            gates["b"].set()
            assert await read_until(missed, "b done") == ([id] * 3, ["b 2", "b 3", "b done"])
        server.start()
        assert caplog.text.count("a message of an MCP session was not stored") == 4
        assert caplog.text.count("a response of an MCP session was not stored") == 2

        gates["c"].set()
        ids, texts = await read_until(client.call(3, "c"), "c done")
        assert (await read_until(client.resume(ids[0]), "c done"))[1] == texts[1:] == ["c 1", "c 2", "c 3", "c done"]


async def test_a_resumed_client_gets_a_response_that_cannot_be_stored(
    start_on_fixed_port: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_on_fixed_port()
    gates = Gates()
    async with (
        AsyncStreams(server.url, retries=Retries(attempts_max=1)) as streams,
        serve(DurableEventStore(streams), gates) as url,
        connect(url) as (client,),
    ):
        ids, _ = await read_until(client.call(1, "a"), "a 1")
        with monkeypatch.context() as patched:
            patched.setattr(limits, "MCP_STORE_S", 0.1)
            async with asyncio.timeout(20), aclosing(client.resume(ids[0])) as events:
                assert describe((await anext(events))[1]) == "a 1"
                server.kill()
                gates["a"].set()
                assert [event async for event in events] == []
        server.start()
        again, texts = await read_until(client.resume(ids[0]), "a done")
        assert texts == ["a 1", "a done"]
        assert (await read_until(client.resume(again[0]), "a done"))[1] == ["a done"]
