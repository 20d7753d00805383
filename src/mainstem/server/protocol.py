"""The HTTP protocol of `mainstem serve`: uvicorn's, with bounds on requests and a short way for appends."""

import asyncio
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstem import limits
from mainstem.access import EVERYBODY
from mainstem.errors import BadRequest, HeadTooLarge, MainstemError, RequestTimeout, problem
from mainstem.server.app import Mainstem
from mainstem.server.hot_appends import AppendCycle, fits
from mainstem.streams.paths import CONTROL, PREFIX
from mainstem.streams.requests import collect_headers


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP with bounds on a request's head and on its time, and with errors as problem documents."""

    cycle: Any  # uvicorn's request cycle, or an append on the short way
    _in_head = True
    _incomplete = True
    _head_bytes = 0
    _messages = 0
    _refused = False
    _refusal: MainstemError | None = None
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.mainstem: Mainstem = config.app  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(limits.REQUEST_WAIT_S_MAX, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._head_bytes += len(data)
            if self._head_bytes > limits.LINGER_BYTES_MAX:
                self.transport.abort() if self._refusal is None else self.transport.pause_reading()
            return
        # The last message that this piece can belong to from its first byte: one that goes on, or else the next.
        message = self._messages if self._incomplete and self._messages else self._messages + 1
        super().data_received(data)
        if self._incomplete:  # most requests come in one piece, and need no timer
            if self._timer is None:
                self._timer = self.loop.call_later(limits.REQUEST_WAIT_S_MAX, self._give_up)
            if self._in_head and self._messages <= message:  # all of it belongs to a head that goes on
                self._head_bytes += len(data)
                self._check_head(self._head_bytes)

    def on_message_begin(self) -> None:
        self._in_head = self._incomplete = True
        self._head_bytes = 0
        self._messages += 1
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
        else:  # a trailer: counted, and ignored
            self._head_bytes += len(name) + len(value) + 4
            self._check_head(self._head_bytes)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._check_head(len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers))
        if self.parser.should_upgrade() and self._has_body():
            self._refuse(BadRequest("a request that asks for another protocol has no body"))
        if len(self.pipeline) >= limits.PIPELINED_REQUESTS_MAX:
            self._refuse(BadRequest(f"more than {limits.PIPELINED_REQUESTS_MAX} requests wait on this connection"))
        if self._refused:
            return
        if not (self.parser.get_method() == b"POST" and self._begin_append()):
            super().on_headers_complete()

    def _has_body(self) -> bool:
        names = [name for name, value in self.headers if value != b"0"]
        return b"content-length" in names or b"transfer-encoding" in names

    def _check_head(self, size: int) -> None:
        if size > limits.REQUEST_HEAD_BYTES_MAX:
            self._refuse(HeadTooLarge(f"more than {limits.REQUEST_HEAD_BYTES_MAX} bytes"))

    def _begin_append(self) -> bool:
        """Take a POST to a stream the short way, if it fits and nothing is before it on this connection."""
        http = self.mainstem.http
        if (
            http is None
            or not self.url.startswith(PREFIX)
            or b"?" in self.url
            or self.url.startswith(CONTROL)
            or not (self.cycle is None or self.cycle.response_complete)
        ):
            return False
        try:
            headers = collect_headers(self.headers)
        except MainstemError:
            return False  # the ordinary way answers it
        if not fits(headers, http.body_bytes_max) or self.parser.should_upgrade():
            return False
        gate = self.mainstem.gate
        identity = EVERYBODY if gate is None else gate.admit_known(headers, self.client)
        if identity is None:
            return False
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self.cycle = AppendCycle(self, http, identity, self.url[len(PREFIX) :], headers, keep_alive)
        return True

    def on_message_complete(self) -> None:
        self._incomplete = False
        if self._timer is not None:
            self._stop_timer()
        super().on_message_complete()
        if isinstance(self.cycle, AppendCycle):
            self.cycle.begin()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest("this is not a valid HTTP request"))

    def _refuse(self, error: MainstemError) -> None:
        """Answer and close, after the replies to the requests before it."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_timer()
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self._send_refusal(error)
        else:
            self._refusal = error

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None and not self.pipeline and self.cycle.response_complete:
            self._send_refusal(self._refusal)

    def _send_refusal(self, error: MainstemError) -> None:
        """Take in for a moment what is still on its way: closing over unread data would reset the connection, and the
        client might never see why."""
        body = msgspec.json.encode(problem(error))
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (error.status, error.title.encode(), len(body), body)
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(limits.LINGER_S, self.transport.close)

    def _give_up(self) -> None:
        self._timer = None
        self._refuse(RequestTimeout(f"the request was not complete after {limits.REQUEST_WAIT_S_MAX:g} s"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
