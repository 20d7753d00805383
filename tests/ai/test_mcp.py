"""A real MCP server with streamable HTTP, on a real port, whose events a real Mainstem server keeps."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from mainstem import limits
from mainstem.ai.mcp import DurableEventStore
from mainstem.client import AsyncStreams, Retries
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from tests.support.waits import eventually_async

VERSION = "2025-11-25"
ACCEPT = "application/json, text/event-stream"


class Gates:
    """What the tool `count` waits for, by the name of the caller."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = {}

    def __getitem__(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())


@asynccontextmanager
async def serve(store: DurableEventStore, gates: Gates, *, wrapped: bool = True) -> AsyncIterator[str]:
    mcp = MCPServer("counter")

    @mcp.tool()
    async def count(name: str, ctx: Context) -> str:
        await ctx.report_progress(1, message=f"{name} 1")
        await gates[name].wait()
        await ctx.report_progress(2, message=f"{name} 2")
        await ctx.report_progress(3, message=f"{name} 3")
        return f"{name} done"

    app: Any = mcp.streamable_http_app(event_store=store)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        store.wrap(app) if wrapped else app, log_level="error", ws="none", timeout_graceful_shutdown=1, lifespan="on"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually_async(lambda: server.started or serving.done())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving
        listener.close()


class Client:
    """An MCP client of our own, which can disconnect in the middle of a response."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._headers = {"accept": ACCEPT, "mcp-protocol-version": VERSION}

    async def connect(self) -> None:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
        async with aclosing(self.post({"id": 0, "method": "initialize", "params": params})) as events:
            async for _, message in events:
                if message is not None:
                    assert message["result"]["protocolVersion"] == VERSION
        accepted = await self._http.post(
            self._url, headers=self._headers, json={"jsonrpc": "2.0", "method": "notifications/initialized"}
        )
        assert accepted.status_code == 202

    def call(self, id: int, name: str) -> AsyncGenerator[tuple[str, Any], None]:
        params = {"name": "count", "arguments": {"name": name}, "_meta": {"progressToken": f"token {name}"}}
        return self.post({"id": id, "method": "tools/call", "params": params})

    def post(self, request: dict[str, Any]) -> AsyncGenerator[tuple[str, Any], None]:
        return self._read("POST", {}, json={"jsonrpc": "2.0", **request})

    def resume(self, event_id: str) -> AsyncGenerator[tuple[str, Any], None]:
        return self._read("GET", {"last-event-id": event_id})

    async def _read(
        self, method: str, headers: dict[str, str], **options: Any
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the ids and messages of events until the response has come; the message of a priming event is None."""
        async with self._http.stream(method, self._url, headers=self._headers | headers, **options) as response:
            response.raise_for_status()
            self._headers["mcp-session-id"] = response.headers["mcp-session-id"]
            id = ""
            async for line in response.aiter_lines():
                if line.startswith("id:"):
                    id = line[3:].strip()
                elif line.startswith("data:"):
                    message = json.loads(line[5:]) if line[5:].strip() else None
                    yield id, message
                    if message is not None and "id" in message:
                        return


def describe(message: Any) -> str:
    if message is None:
        return "priming"
    if "result" in message:
        return message["result"]["content"][0]["text"]
    return message["params"]["message"]


async def read_until(events: AsyncGenerator[tuple[str, Any], None], text: str) -> tuple[list[str], list[str]]:
    """Read events up to one, disconnect, and return the ids and the texts."""
    ids, texts = [], []
    async with asyncio.timeout(30), aclosing(events):
        async for id, message in events:
            ids.append(id)
            texts.append(describe(message))
            if texts[-1] == text:
                return ids, texts
    raise AssertionError(f"the events ended without {text}: {texts}")


@asynccontextmanager
async def connect(url: str, *, number: int = 1) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(number):
            http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=30))
            clients.append(Client(http, url))
            await clients[-1].connect()
        yield clients


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
        assert caplog.text.count("a message of an MCP session was not stored") == 6

        gates["c"].set()
        ids, texts = await read_until(client.call(3, "c"), "c done")
        assert (await read_until(client.resume(ids[0]), "c done"))[1] == texts[1:] == ["c 1", "c 2", "c 3", "c done"]


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
