"""One request and its reply: the object that a handler works with, and the framing of the reply."""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError, problem
from mainstem.http.request_ids import make_request_id
from mainstem.http.responses import encode_headers
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


class FinishedHandler:
    """The handler of a request that has its reply already."""

    backlog = 0

    def receive_data(self, data: bytes) -> None:
        pass

    def receive_end(self) -> None:
        pass

    def client_disconnected(self) -> None:
        pass


FINISHED: Final = FinishedHandler()


class Plan(Protocol):
    """How to serve requests with one head without a task."""

    def begin(self, cycle: "RequestCycle") -> Handler | None:
        """Return a handler for this request; None leaves it to the ASGI app.

        Whatever can change between two requests with the same head is checked here.
        """


class Observer(Protocol):
    """Learns of every request when its reply is complete, or will never be."""

    def observe(self, cycle: "RequestCycle", complete: bool) -> None:
        """Called with a request that is over. Must not raise an error."""

    def observe_handshake(self, head: RequestHead, status: int, code: str) -> None:
        """Called with the handshake of a WebSocket: status 101 if it was accepted."""

    def observe_refusal(self, connection: "Connection", error: MainstemError) -> None:
        """Called with an error in place of a request: what the client sent is not one."""


class RequestTracer(Protocol):
    """Decides about every request when it begins whether it is traced."""

    def begin(self, cycle: "RequestCycle") -> Any:
        """Return the trace of a request, or None. Must not raise an error."""


FastPath = Callable[[RequestHead], Plan | None]
"""Returns a plan for requests with this head, whatever their Content-Length and Producer-Seq; None leaves them to the
ASGI app. It is called once for a head that is remembered."""

# Looking up a member of an enum takes about 0.1 us.
PENDING: Final = Writing.PENDING
ENDED: Final = Writing.ENDED
WHOLE: Final = Write.WHOLE


class RequestCycle(msgspec.Struct, eq=False):
    """A request and its reply. Write the reply with `respond`, or in parts with `start`, `write` and `end`.

    Once the client is gone, writing has no effect.
    """

    connection: "Connection"
    head: RequestHead
    began_s: float = 0.0
    """When the head was complete, on the clock of `time.perf_counter`: uvloop's has a resolution of a millisecond."""
    handler: Handler | None = None
    status: int = 0
    """The status of the reply; 0 if none has begun."""
    code: str = ""
    """The code of the error, if the reply is a problem document."""
    sent: int = 0
    """How many bytes of the reply were sent."""
    identity: Identity | None = None
    """The caller, once it is known."""
    received: int = 0
    """How many bytes of the body have arrived."""
    span: Any = None
    """The trace of the request, if it is traced."""
    _close: bool = False
    """Whether the connection closes after this reply, for a reason that concerns only this request."""
    _continued: bool = False
    _chunked: bool = False
    _left: int | None = None
    _silent: bool = False
    _request_id: str = ""

    @property
    def request_id(self) -> str:
        """The id of the request, for logs and error messages: the client's, or one that is made here."""
        if not self._request_id:
            self._request_id = self.head.request_id.decode("ascii") or make_request_id()
        return self._request_id

    @property
    def started(self) -> bool:
        return self.connection.machine.writing is not PENDING

    @property
    def complete(self) -> bool:
        return self.connection.cycle is not self or self.connection.machine.writing is Writing.COMPLETE

    @property
    def lost(self) -> bool:
        """Whether the client is gone, so that writing has no effect."""
        connection = self.connection
        return connection.cycle is not self or connection.machine.writing is ENDED

    def ask_for_body(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends the body."""
        if self.head.expects_continue and not self._continued and not self.started and not self.lost:
            self._continued = True
            self.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    # A reply in one piece

    def respond(self, status: int, headers: Iterable[Field], body: bytes = b"", lines: bytes = b"") -> None:
        """Send a whole reply. `lines` are further headers, already encoded by `encode_headers`."""
        if self.lost:
            return
        connection = self.connection
        connection.machine.write(WHOLE)
        parts = self._head(status, headers, lines)
        if status not in WITHOUT_BODY:
            parts.append(b"content-length: %d\r\n" % len(body))
        closes = self._closes()
        if closes:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        if self.head.method != b"HEAD":
            if len(body) > limits.WRITE_JOINED_BYTES_MAX:
                head = b"".join(parts)
                self.sent = len(head)
                connection.send(head)
                parts = [body]
            else:
                parts.append(body)
        data = b"".join(parts)
        self.sent += len(data)
        connection.send(data)
        connection.reply_completed(closes)

    def respond_problem(self, error: MainstemError, headers: Iterable[Field] | None = None) -> None:
        """Send a problem document. `headers` are all headers except Content-Length."""
        self.code = error.code
        body = msgspec.json.encode(problem(error, self.request_id))
        self.respond(error.status, problem_fields(error) if headers is None else headers, body)

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

    def write(self, head: bytes, data: bytes | bytearray | memoryview) -> None:
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
            data = b"".join((b"%x\r\n" % len(data), data, b"\r\n"))
        if len(data) > limits.WRITE_JOINED_BYTES_MAX:
            self.sent += len(head)
            self.connection.send(head)
            head = b""
        if head or data:
            self.sent += len(head) + len(data)
            self.connection.send(b"".join((head, data)) if head else data)

    def end(self) -> None:
        if self.lost:
            return
        if self._left and not self._silent:
            raise AssertionError("a reply is shorter than its Content-Length")
        if self._chunked:
            self.sent += 5
            self.connection.send(b"0\r\n\r\n")
        self.connection.machine.write(Write.END)
        self.connection.reply_completed(self._close)

    @property
    def chunked(self) -> bool:
        """Whether the reply has begun, and its parts are sent as chunks."""
        return self._chunked

    def resume(self, app: Any) -> None:
        """Continue a reply that another handler had taken over, in an ASGI app."""
        self.connection.server.resume(self, app)

    def abort(self) -> None:
        """Abort the connection, so that the client does not mistake a part of the reply for all of it."""
        if not self.lost:
            self.connection.abort()

    # Framing

    def _head(self, status: int, headers: Iterable[Field], lines: bytes = b"") -> list[bytes]:
        self.status = status
        server = self.connection.server
        parts = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, server.date_line, lines]
        if self.head.request_id or self.code or server.marks_requests:
            parts.append(b"x-request-id: %b\r\n" % self.request_id.encode())
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        return parts

    def _closes(self) -> bool:
        """Return whether the connection closes after this reply."""
        head = self.head
        if head.expects_continue and not self._continued and self.connection.machine.reading is Reading.BODY:
            self._close = True  # it is unknown whether the client will still send its body
        if self.connection.closing or not head.keep_alive:
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
    request_id = make_request_id()
    body = msgspec.json.encode(problem(error, request_id))
    fields = encode_headers([*problem_fields(error), (b"x-request-id", request_id.encode())])
    status = STATUS_LINES[error.status]
    return b"%b%b%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, date_line, fields, len(body), body)
