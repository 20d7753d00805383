"""Connections in memory: requests, event streams and WebSockets that reach the ASGI app late, or not at all."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from mainstem.http.asgi import Message, Receive, Scope, Send
from mainstem.testing.simulation.loop import VirtualLoop

App = Callable[[Scope, Receive, Send], Any]
NoteError = Callable[[str, BaseException], None]

WAIT_S_MAX = 5.0
"""How long a client waits for a reply before it gives up."""


class ConnectionLost(Exception):
    """The connection ended before the reply was complete."""


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Exchange(Protocol):
    """What a client sees of a response, or of a WebSocket."""

    async def receive(self) -> Message:
        """Return the next part of the response, or the next message."""


class WebSocket(Exchange, Protocol):
    def send(self, message: Message) -> None:
        """Send a message, which arrives later."""


class Connection:
    """One call of the app. Messages take a while in both directions, and keep their order."""

    def __init__(self, app: App, scope: Scope, network: "Network") -> None:
        self._network = network
        self._to_server = Direction(network)
        self._to_client = Direction(network)
        self._task = network.loop.create_task(self._run(app, scope))

    async def _run(self, app: App, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - a server would log it, and reply with status 500
            self._network.note_error("the app failed", error)
        self._to_client.send({"type": "end"})

    def cut(self) -> None:
        """End the connection."""
        self._to_client.cut()
        self._to_server.cut()

    # The side of the server

    _disconnect = "http.disconnect"

    async def _receive(self) -> Message:
        message = await self._to_server.receive()
        return {"type": self._disconnect} if message is None else message

    async def _send(self, message: Message) -> None:
        self._to_client.send(message)

    # The side of the client

    def send(self, message: Message) -> None:
        self._to_server.send(message)

    async def receive(self) -> Message:
        """Return the next message of the app. Raise an error if the connection ends first."""
        message = await self._to_client.receive()
        if message is None or message["type"] == "end":
            self.cut()
            raise ConnectionLost
        return message


class Direction:
    """One direction of a connection: messages arrive after a while, in the order in which they were sent."""

    def __init__(self, network: "Network") -> None:
        self._network = network
        self._sent: deque[Message] = deque()
        self._arrived: deque[Message] = deque()
        self._last_at = 0.0
        self._lost = False
        self._waiter: asyncio.Future[None] | None = None

    def send(self, message: Message) -> None:
        if not self._lost:
            loop = self._network.loop
            self._last_at = max(self._last_at, loop.time() + self._network.draw_delay_s())
            self._sent.append(message)
            loop.call_at(self._last_at, self._arrive)

    def _arrive(self) -> None:
        self._arrived.append(self._sent.popleft())
        self._wake()

    def cut(self) -> None:
        """Lose what has not been received."""
        self._lost = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Message | None:
        """Return the next message; None once the connection has ended."""
        while not self._lost and not self._arrived:
            self._waiter = self._network.loop.create_future()
            await self._waiter
        return None if self._lost else self._arrived.popleft()


class SocketConnection(Connection):
    _disconnect = "websocket.disconnect"


class Network:
    """How clients reach a server. `cuts` is the share of the connections that are cut before they end."""

    def __init__(self, app: App, loop: VirtualLoop, random: Random, cuts: float, note_error: NoteError) -> None:
        self.app = app
        self.loop = loop
        self.random = random
        self.cuts = cuts
        self.note_error = note_error
        """Called with every failure of the app."""
        self.slowness = 1.0

    def draw_delay_s(self) -> float:
        return self.slowness * self.loop.draw_delay_s()

    def _open(self, scope: Scope, kind: type[Connection] = Connection) -> Connection:
        connection = kind(self.app, scope, self)
        self.cut_maybe(connection.cut)
        return connection

    def cut_maybe(self, cut: Callable[[], None]) -> None:
        """Cut a new connection after a while, if it is its turn."""
        if self.random.random() < self.cuts:
            self.loop.call_later(self.random.random() ** 3, cut)

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """Return the response to a request. Raise `ConnectionLost` if there is none; then its outcome is unknown."""
        async with self.stream(method, target, headers, body) as (status, received, connection):
            pieces: list[bytes] = []
            try:
                async with asyncio.timeout(WAIT_S_MAX):
                    while True:
                        message = await connection.receive()
                        pieces.append(message.get("body", b""))
                        if not message.get("more_body"):
                            return Response(status, received, b"".join(pieces))
            except TimeoutError:
                raise ConnectionLost from None

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> AsyncIterator[tuple[int, dict[str, str], Exchange]]:
        """Send a request, and yield the status and the headers of the response, and the connection with its body."""
        path, _, query = target.partition("?")
        sent = {"host": "localhost", "content-length": str(len(body)), **(headers or {})}
        scope: Scope = {
            **_make_scope("http", path, query, sent),
            "method": method,
        }
        connection = self._open(scope)
        try:
            half = self.random.randrange(len(body) + 1)
            connection.send({"type": "http.request", "body": body[:half], "more_body": True})
            connection.send({"type": "http.request", "body": body[half:], "more_body": False})
            try:
                async with asyncio.timeout(WAIT_S_MAX):
                    start = await connection.receive()
            except TimeoutError:
                raise ConnectionLost from None
            received = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
            yield start["status"], received, connection
        finally:
            connection.cut()

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[WebSocket]:
        """Open a WebSocket."""
        connection = self._open(_make_scope("websocket", path, "", {"host": "localhost"}), SocketConnection)
        try:
            connection.send({"type": "websocket.connect"})
            message = await connection.receive()
            if message["type"] != "websocket.accept":
                raise ConnectionLost
            yield connection
        finally:
            connection.cut()


def _make_scope(type_: str, path: str, query: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": type_,
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http" if type_ == "http" else "ws",
        "server": ("localhost", 4437),
        "client": ("127.0.0.1", 50_000),
        "root_path": "",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }
