"""One request and its reply: the object that a handler works with, and the framing of the reply."""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError, problem
from mainstem.server.edge.heads import Field, RequestHead
from mainstem.server.edge.states import Reading, Write, Writing

if TYPE_CHECKING:
    from mainstem.server.edge.connection import Connection

STATUS_LINES: Final[dict[int, bytes]] = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus
}
WITHOUT_BODY: Final = frozenset([204, 304])


class Handler(Protocol):
    """Replies to a request. Its methods are called on the event loop and must not block."""

    @property
    def backlog(self) -> int:
        """Bytes of the body that the handler holds and cannot use yet. Above a limit, the socket is not read."""

    def receive_data(self, data: bytes) -> None:
        """Receive a piece of the body."""

    def receive_end(self) -> None:
        """Called when the request is complete."""

    def client_disconnected(self) -> None:
        """Called when the client has disconnected, or closed its half of the connection."""


FastPath = Callable[["RequestCycle"], Handler | None]
"""Returns a handler for a request that needs no task; None leaves the request to the ASGI app."""


class RequestCycle:
    """A request and its reply. Write the reply with `respond`, or in parts with `start`, `write` and `end`.

    Once the client is gone, writing has no effect.
    """

    __slots__ = ("_chunked", "_close", "_continued", "_left", "_silent", "connection", "handler", "head", "received")

    def __init__(self, connection: "Connection", head: RequestHead) -> None:
        self.connection = connection
        self.head = head
        self.handler: Handler | None = None
        self.received = 0
        """How many bytes of the body have arrived."""
        self._chunked = False
        self._close = not head.keep_alive
        self._continued = not head.expects_continue
        self._left: int | None = None
        self._silent = False

    @property
    def started(self) -> bool:
        return self.connection.machine.writing is not Writing.PENDING

    @property
    def complete(self) -> bool:
        return self.connection.cycle is not self or self.connection.machine.writing is Writing.COMPLETE

    @property
    def lost(self) -> bool:
        """Whether the client is gone, so that writing has no effect."""
        connection = self.connection
        return connection.cycle is not self or connection.machine.writing is Writing.ENDED

    def ask_for_body(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends the body."""
        if not self._continued and not self.started and not self.lost:
            self._continued = True
            self.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    # A reply in one piece

    def respond(self, status: int, headers: Iterable[Field], body: bytes = b"") -> None:
        if self.lost:
            return
        self.connection.machine.write(Write.WHOLE)
        parts = self._head(status, headers)
        if status not in WITHOUT_BODY:
            parts.append(b"content-length: %d\r\n" % len(body))
        if self._closes():
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        if self.head.method != b"HEAD":
            parts.append(body)
        self.connection.send(b"".join(parts))
        self.connection.reply_completed(self._close)

    def respond_problem(self, error: MainstemError, headers: Iterable[Field] = ()) -> None:
        self.respond(error.status, [*headers, *problem_fields(error)], msgspec.json.encode(problem(error)))

    # A reply in parts

    def start(self, status: int, headers: Iterable[Field]) -> bytes:
        """Return the head of the reply, to pass to the first `write`."""
        self.connection.machine.write(Write.HEAD)
        kept: list[Field] = []
        for name, value in headers:
            if name == b"connection":
                self._close = self._close or value.lower() == b"close"
            elif name != b"transfer-encoding":
                kept.append((name, value))
                if name == b"content-length":
                    self._left = int(value)
        parts = self._head(status, kept)
        self._silent = self.head.method == b"HEAD" or status in WITHOUT_BODY
        if self._left is None and not self._silent:
            if self.head.minor == 1:
                self._chunked = True
                parts.append(b"transfer-encoding: chunked\r\n")
            else:
                self._close = True  # the end of the connection is the end of the body
        if self._closes():
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)

    def write(self, head: bytes, data: bytes) -> None:
        """Send a part of the body, after the head if it is the first one."""
        if self.lost:
            return
        assert self.connection.machine.writing is Writing.BODY, "a reply begins with its head"
        if self._silent:
            data = b""
        elif self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise AssertionError("a reply is longer than its Content-Length")
        elif self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if len(data) > limits.WRITE_JOINED_BYTES_MAX:
            self.connection.send(head)
            head = b""
        if head or data:
            self.connection.send(head + data if head else data)

    def end(self) -> None:
        if self.lost:
            return
        if self._left and not self._silent:
            raise AssertionError("a reply is shorter than its Content-Length")
        if self._chunked:
            self.connection.send(b"0\r\n\r\n")
        self.connection.machine.write(Write.END)
        self.connection.reply_completed(self._close)

    def abort(self) -> None:
        """Abort the connection, so that the client does not mistake a part of the reply for all of it."""
        if not self.lost:
            self.connection.abort()

    # Framing

    def _head(self, status: int, headers: Iterable[Field]) -> list[bytes]:
        parts = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, self.connection.server.date_line]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        return parts

    def _closes(self) -> bool:
        """Return whether the connection closes after this reply."""
        if not self._continued and self.connection.machine.reading is Reading.BODY:
            self._close = True  # it is unknown whether the client will still send its body
        if self.connection.closing:
            self._close = True
        return self._close


def problem_fields(error: MainstemError) -> list[Field]:
    """Return the headers of an error that is found before the request reaches the app."""
    return [
        (b"content-type", b"application/problem+json"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *((name.lower().encode(), value.encode()) for name, value in error.headers.items()),
    ]


def error_reply(error: MainstemError, date_line: bytes) -> bytes:
    """Return an error as the last reply of a connection."""
    body = msgspec.json.encode(problem(error))
    fields = b"".join(b"%b: %b\r\n" % field for field in problem_fields(error))
    status = STATUS_LINES[error.status]
    return b"%b%b%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, date_line, fields, len(body), body)
