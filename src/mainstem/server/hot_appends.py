"""Appends without a task: the hot path of the server.

A POST that fits in memory needs no coroutine of its own: its request is parsed when its last byte arrives, the command
waits in the log, and the committer answers it. Everything else, and every append in a host other than
`mainstem serve`, takes the ordinary ASGI way. Both share the parsing, the command and the reply.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError, problem
from mainstem.streams import paths
from mainstem.streams.appends import Appended
from mainstem.streams.http import StreamsHttp, append_content_type, append_reply, parse_messages_now
from mainstem.streams.requests import Headers
from mainstem.streams.responses import HeaderList, problem_headers

if TYPE_CHECKING:
    from mainstem.server.protocol import BoundedHttpProtocol

STATUS_LINES: dict[int, bytes] = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


def fits(headers: Headers, body_bytes_max: int) -> bool:
    """Whether a POST can wait for its last byte in memory. One that is too large is refused on the ordinary way."""
    length = headers.get(b"content-length", b"0")
    return (
        b"transfer-encoding" not in headers
        and b"expect" not in headers
        and length.isdigit()
        and int(length) <= min(limits.HOT_APPEND_BYTES_MAX, body_bytes_max)
    )


class AppendCycle:
    """One append on its way. To uvicorn's protocol it is a request cycle, to the log it is a waiting caller."""

    __slots__ = (
        "begun",
        "body",
        "disconnected",
        "headers",
        "http",
        "identity",
        "keep_alive",
        "more_body",
        "protocol",
        "raw_path",
        "response_complete",
    )

    def __init__(
        self,
        protocol: "BoundedHttpProtocol",
        http: StreamsHttp,
        identity: Identity,
        raw_path: bytes,
        headers: Headers,
        keep_alive: bool,
    ) -> None:
        self.protocol = protocol
        self.http = http
        self.identity = identity
        self.raw_path = raw_path
        self.headers = headers
        self.keep_alive = keep_alive
        self.begun = False
        self.body = bytearray()
        self.more_body = True
        self.disconnected = False
        self.response_complete = False

    @property
    def message_event(self) -> "AppendCycle":
        return self

    def set(self) -> None:
        """uvicorn tells of progress so; only the end of the body matters here."""

    def begin(self) -> None:
        """The request is complete: let its command wait for the next batch, once."""
        if self.begun:
            return  # a later message of the connection has ended, without a cycle of its own
        self.begun = True
        try:
            path = paths.parse_path(self.raw_path)
            self.identity.require_write(path)
            body = bytes(self.body)
            content_type = append_content_type(self.headers, body)
            messages = None if content_type is None else parse_messages_now(content_type, body)
            command = self.http.append_command(path, self.headers, content_type, messages)
            self.http.streams.log.enqueue(command, self)
        except MainstemError as error:
            self.set_exception(error)

    # What the log needs of a waiting caller

    def cancelled(self) -> bool:
        return False  # a complete request counts, also when its client has left

    def done(self) -> bool:
        return self.response_complete

    def set_result(self, done: Appended) -> None:
        if done.state.ttl_s is not None:
            self.http.keep_alive(paths.parse_path(self.raw_path), done)
        status, headers = append_reply(self.headers, done)
        self._finish(status, headers, b"")

    def set_exception(self, error: BaseException) -> None:
        if not isinstance(error, MainstemError):
            error = MainstemError("the append failed unexpectedly")
        self._finish(error.status, problem_headers(error), msgspec.json.encode(problem(error)))

    def _finish(self, status: int, headers: HeaderList, body: bytes) -> None:
        self.response_complete = True
        if self.disconnected:
            return
        parts = [STATUS_LINES[status]]
        for name, value in self.protocol.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if status != 204:
            parts.append(b"content-length: %d\r\n" % len(body))
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        transport = self.protocol.transport
        transport.write(b"".join(parts))
        if not self.keep_alive:
            transport.close()
        self.protocol.on_response_complete()
