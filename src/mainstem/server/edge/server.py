"""Accepts connections, enforces their deadlines, and shuts down in an orderly way."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Protocol

from mainstem import limits
from mainstem.access import name_address
from mainstem.eager import run_eagerly
from mainstem.errors import RETRY_AFTER, Overloaded
from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.instruments import Reading
from mainstem.server.edge.asgi import AsgiHandler
from mainstem.server.edge.connection import Connection
from mainstem.server.edge.heads import Heads, RequestHead
from mainstem.server.edge.memory import MemoryBudget
from mainstem.server.edge.request_cycle import FastPath, Handler, Observer, RequestCycle, RequestTracer
from mainstem.server.edge.websocket import WebSocketConnection
from mainstem.shares import Share, Shares
from mainstem.traces import current_trace

logger = logging.getLogger(__name__)


class Client(Protocol):
    """An HTTP connection or a WebSocket, as the server sees it."""

    deadline: float | None

    def expire(self) -> None: ...
    def finish_soon(self) -> None: ...
    def abort(self) -> None: ...


class EdgeServer:
    """Serves an ASGI app on listening sockets.

    `fast_path` may plan to serve requests without a task. `runs_eagerly` returns whether the app should begin a request
    at once, and get a task only when it has to wait.
    """

    def __init__(
        self,
        app: Any,
        fast_path: FastPath | None = None,
        *,
        runs_eagerly: Callable[[RequestHead], bool] | None = None,
        shares: Shares | None = None,
        message_bytes_max: int = limits.MIB,
        observer: Observer | None = None,
        tracer: RequestTracer | None = None,
        marks_requests: bool = False,
    ) -> None:
        """`marks_requests` gives every request an id, and not only those that fail or have one."""
        self.app = app
        self.observer = observer
        self.tracer = tracer
        self.marks_requests = marks_requests
        self.shares = shares or Shares()
        self.heads = Heads(fast_path)
        self.runs_eagerly = runs_eagerly or _never
        self.message_bytes_max = message_bytes_max
        self.memory = MemoryBudget()
        self.clients: dict[Client, None] = {}
        self.date_line = b""
        self.loop: asyncio.AbstractEventLoop
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._ended = asyncio.Event()
        """Set whenever a connection or a task ends."""
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._set_date()
        self._sweeper = self.loop.create_task(self._sweep(), name="mainstem-edge-sweeper")
        make: Callable[[], asyncio.Protocol] = lambda: Connection(self)  # noqa: E731
        self._servers.append(await self.loop.create_server(make, sock=listener, ssl=tls, backlog=limits.LISTEN_BACKLOG))

    async def stop(self) -> None:
        """Accept no new connections, finish open requests, and close. Connections that take too long are aborted."""
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.finish_soon()
        try:
            async with asyncio.timeout(limits.SHUTDOWN_S_MAX):
                while self.clients or self._tasks:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            logger.warning("aborted %d connections that were open after %g s", len(self.clients), limits.SHUTDOWN_S_MAX)
        for client in list(self.clients):
            client.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    def measure(self, metrics: Metrics) -> None:
        """Read the measures of connections at each scrape."""
        metrics.connections.read = self._count_connections
        metrics.held_bytes.read_with(lambda: self.memory.total)
        metrics.shed_connections.read_with(lambda: self.memory.shed_count)

    def _count_connections(self) -> Reading:
        websockets = sum(isinstance(client, WebSocketConnection) for client in self.clients)
        return [(("http",), len(self.clients) - websockets), (("websocket",), websockets)]

    # Called by connections

    def add(self, client: Client) -> None:
        self.clients[client] = None

    def admit(self, address: tuple[str, int] | None) -> None:
        """Count a new connection, in total and for its address. Raises an error if there are too many."""
        if len(self.clients) > limits.CONNECTIONS_MAX:
            raise Overloaded(f"the server has {limits.CONNECTIONS_MAX} open connections already", headers=RETRY_AFTER)
        if address is not None:
            self.shares.take(name_address(address[0]), Share.CONNECTIONS)

    def release(self, address: tuple[str, int] | None) -> None:
        if address is not None:
            self.shares.release(name_address(address[0]), Share.CONNECTIONS)

    def remove(self, client: Client) -> None:
        self.clients.pop(client, None)
        self._ended.set()

    def serve(self, cycle: RequestCycle) -> Handler:
        """Pass a request to the ASGI app, and return its handler."""
        if cycle.span is None:
            return self._serve(cycle)
        token = current_trace.set(cycle.span)  # a task inherits it
        try:
            return self._serve(cycle)
        finally:
            current_trace.reset(token)

    def _serve(self, cycle: RequestCycle) -> Handler:
        handler = AsgiHandler(self.app, cycle)
        if not self.runs_eagerly(cycle.head):
            self.run(handler.run())
            return handler
        cycle.handler = handler
        handler.receive_end()
        task = run_eagerly(handler.run())
        if task is not None:
            self._keep(task)
        return cycle.handler

    def resume(self, cycle: RequestCycle, app: Any) -> None:
        """Continue a detached reply in an ASGI app."""
        AsgiHandler(app, cycle).resume()

    def upgrade(self, connection: Connection, head: RequestHead, rest: bytes) -> None:
        """Turn an HTTP connection into a WebSocket."""
        websocket = WebSocketConnection(self, connection, head)
        self.add(websocket)
        connection.transport.set_protocol(websocket)
        websocket.begin(rest)

    def run(self, work: Any) -> None:
        self._keep(self.loop.create_task(work))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._ended.set()

    # Periodic work

    async def _sweep(self) -> None:
        """Check all deadlines periodically, which costs less than a timer per request."""
        while True:
            await asyncio.sleep(limits.DEADLINE_CHECK_S)
            self._set_date()
            now = self.loop.time()
            for client in [client for client in self.clients if client.deadline is not None and client.deadline <= now]:
                client.expire()

    def _set_date(self) -> None:
        self.date_line = b"date: %b\r\n" % formatdate(usegmt=True).encode()


def _never(head: RequestHead) -> bool:
    return False
