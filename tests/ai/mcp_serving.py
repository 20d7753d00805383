"""An MCP server with streamable HTTP on a real port, and a client that can disconnect in the middle of a response."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.types import ASGIApp

from mainstem.ai.mcp import DurableEventStore
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
async def serve(
    store: DurableEventStore, gates: Gates, *, guard: Callable[[ASGIApp], ASGIApp] | None = None
) -> AsyncIterator[str]:
    """Serve the tools; `guard` may answer requests before the app of the SDK does."""
    mcp = MCPServer("counter")

    @mcp.tool()
    async def count(name: str, ctx: Context) -> str:
        await ctx.report_progress(1, message=f"{name} 1")
        await gates[name].wait()
        await ctx.report_progress(2, message=f"{name} 2")
        await ctx.report_progress(3, message=f"{name} 3")
        return f"{name} done"

    @mcp.tool()
    async def poll(name: str, ctx: Context) -> str:
        await ctx.close_sse_stream()
        await gates[name].wait()
        return f"{name} done"

    app: Any = mcp.streamable_http_app(event_store=store, retry_interval=50)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        store.wrap(guard(app) if guard else app),
        log_level="error",
        ws="none",
        timeout_graceful_shutdown=1,
        lifespan="on",
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

    async def end_session(self) -> int:
        return (await self._http.delete(self._url, headers=self._headers)).status_code

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
