"""Runs an ASGI app for requests: passes the body in as messages, and turns the app's messages into the reply."""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mainstem.errors import MainstemError
from mainstem.http.asgi import Scope
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.request_cycle import Handler, RequestCycle

if TYPE_CHECKING:
    from mainstem.server.edge.connection import Connection

logger = logging.getLogger(__name__)
Message = dict[str, Any]
VERSION = {"version": "3.0", "spec_version": "2.4"}


def make_scope(connection: "Connection", head: RequestHead) -> Scope:
    """Return the part of the ASGI scope that requests and WebSocket handshakes share."""
    path = head.path.decode("ascii")
    return {
        "asgi": VERSION,
        "http_version": "1.1" if head.minor else "1.0",
        "server": connection.local,
        "client": connection.client,
        "root_path": "",
        "path": unquote(path) if "%" in path else path,
        "raw_path": head.path,
        "query_string": head.query,
        "headers": head.headers.copy(),  # heads are cached and shared, and an app may change its scope
    }


class AsgiHandler:
    """One call of the app, in a task of its own."""

    __slots__ = (
        "_app",
        "_complete",
        "_delivered",
        "_detached",
        "_head",
        "_left",
        "_pieces",
        "_scope",
        "_waiter",
        "backlog",
        "cycle",
    )

    def __init__(self, app: Any, cycle: RequestCycle) -> None:
        self.cycle = cycle
        self.backlog = 0
        self._app = app
        self._pieces: deque[bytes] = deque()
        self._complete = False
        self._delivered = False
        self._detached = False
        self._left = False
        self._head = b""
        self._scope: Scope = {}
        self._waiter: asyncio.Future[None] | None = None

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        self._pieces.append(data)
        self.backlog += len(data)
        self._wake()

    def receive_end(self) -> None:
        self._complete = True
        self._wake()

    def client_disconnected(self) -> None:
        self._left = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The app

    async def run(self) -> None:
        cycle = self.cycle
        connection, head = cycle.connection, cycle.head
        scope = self._scope = make_scope(connection, head)
        scope["mainstem.request_id"] = cycle.request_id
        scope["type"] = "http"
        scope["method"] = head.method.decode("ascii")
        scope["scheme"] = "https" if connection.secure else "http"
        scope["extensions"] = {"mainstem.abort": connection.abort, "mainstem.detach": self.detach}
        try:
            await self._app(scope, self.receive, self.send)
        except Exception:
            logger.exception("an unexpected error occurred while handling a request")
            self._fail()
        else:
            if self._detached or cycle.complete or cycle.lost:
                return
            if self._left:
                cycle.abort()  # the client closed its half, and the app took that for a disconnect
            else:
                logger.error("the app returned before its reply was complete")
                self._fail()

    def detach(self, handler: Handler) -> RequestCycle | None:
        """Let another handler finish the reply, so that the app can return before it is complete.

        Returns None if the app must finish the reply itself: the client is leaving, or needs no chunks.
        """
        cycle = self.cycle
        if self._left or self._head or not self._complete or cycle.lost or (cycle.started and not cycle.chunked):
            return None
        self._detached = True
        cycle.handler = handler
        return cycle

    def resume(self) -> None:
        """Run an app that continues a detached reply."""
        self._complete = self._delivered = True
        self.cycle.handler = self
        self.cycle.connection.server.run(self.run())

    def _fail(self) -> None:
        """Reply with an internal error, or abort the connection if the app's reply has begun."""
        if self.cycle.lost or self.cycle.complete:
            return
        if self.cycle.started or self._head:
            self.cycle.abort()
        else:
            self.cycle.respond_problem(MainstemError("an unexpected error occurred; see the log of the server"))

    async def receive(self) -> Message:
        self.cycle.ask_for_body()
        while not (self._pieces or self._left or self.cycle.lost or (self._complete and not self._delivered)):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._pieces or (self._complete and not self._delivered):
            body = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            self._delivered = self._complete
            if self.backlog:
                self.backlog = 0
                self.cycle.connection.body_taken()
            return {"type": "http.request", "body": body, "more_body": not self._complete}
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        cycle = self.cycle
        if cycle.lost:
            return
        if message["type"] == "http.response.start":
            cycle.code = message.get("mainstem.code", "")
            cycle.identity = self._scope.get("mainstem.identity")
            self._head = cycle.start(message["status"], message["headers"])
            return
        if message["type"] != "http.response.body":
            raise AssertionError(f"unexpected ASGI message {message['type']!r}")
        head, self._head = self._head, b""
        more = message.get("more_body", False)
        cycle.write(head, message.get("body", b""))
        if not more:
            cycle.end()
            self._wake()
        if cycle.connection.write_paused:
            await cycle.connection.drain()
