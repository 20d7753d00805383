"""The streams client for blocking code: the twin of `AsyncStreams`, with the same methods in the same order."""

import random
import ssl
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from mainstem import limits
from mainstem.client import transports
from mainstem.client.core.effects import Effect, Invoke, NoResponse, Open, Operation, Receive, Wait
from mainstem.client.core.follower import Follower, Live
from mainstem.client.core.operations import Collector, Operations
from mainstem.client.core.protocol import BEGINNING, BINARY, Producer, Request, Response
from mainstem.client.core.results import Appended, Batch, StreamInfo
from mainstem.client.core.retries import Retries
from mainstem.client.core.sender import TextSource
from mainstem.client.retry_reports import OnRetry, RetryReports
from mainstem.streams.rules.paths import PREFIX

T = TypeVar("T")
Messages = list[Any]


class Streams:
    """A client of one server: `with Streams("http://127.0.0.1:4437") as streams:`.

    `prefix` is the path under which the server serves streams: its setting `stream_prefix`.
    `token` and each value of `headers` and `params` is a str, or a callable that returns one for each request.
    `timeout_s` is how long the server may be silent. `on_retry` is called with a `Retry` before each retry; without it,
    the client logs a warning.
    `http` is an `httpx2.Client` of your own, which the client does not close.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = PREFIX,
        token: TextSource | None = None,
        headers: Mapping[str, TextSource] | None = None,
        params: Mapping[str, TextSource] | None = None,
        timeout_s: float = limits.CLIENT_TIMEOUT_S,
        retries: Retries | None = None,
        on_retry: OnRetry | None = None,
        exactly_once: bool = True,
        verify: ssl.SSLContext | bool = True,
        http: httpx2.Client | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.operations = Operations(
            url,
            prefix=prefix,
            token=token,
            headers=headers,
            params=params,
            retries=retries,
            report=RetryReports(on_retry, clock_s),
            exactly_once=exactly_once,
            make_id=lambda: uuid.uuid4().hex,
            chance=random.random,
            clock_s=clock_s,
        )
        self.url = self.operations.sender.url
        self._timeout_s = timeout_s
        self._owns_http = http is None
        self._http = http or httpx2.Client(**transports.client_options(self.url, timeout_s, verify))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections of this client. It does not touch any stream."""
        if self._owns_http:
            self._http.close()

    # Streams

    def create(
        self,
        path: str,
        content_type: str = BINARY,
        *,
        body: Any = None,
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
        retention: str | None = None,
    ) -> StreamInfo:
        """Create a stream. If it exists with the same configuration, nothing changes."""
        options = {"ttl_s": ttl_s, "expires_at": expires_at, "closed": closed, "retention": retention}
        return self.run(self.operations.create(path, content_type, body, **options))

    def fork(
        self,
        path: str,
        source: str,
        *,
        offset: str | None = None,
        sub_offset: int | None = None,
        content_type: str | None = None,
        body: Any = None,
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
    ) -> StreamInfo:
        """Create a stream that begins with the data of another one, up to `offset` plus `sub_offset` messages."""
        options = {"forked_from": source, "fork_offset": offset, "fork_sub_offset": sub_offset}
        options |= {"ttl_s": ttl_s, "expires_at": expires_at, "closed": closed}
        return self.run(self.operations.create(path, content_type, body, **options))

    def head(self, path: str) -> StreamInfo:
        return self.run(self.operations.head(path))

    def delete(self, path: str) -> None:
        self.run(self.operations.delete(path))

    def list(self, prefix: str = "", *, after: str = "") -> Generator[StreamInfo, None, None]:
        """List the streams whose paths begin with `prefix`, in order, from the first path after `after`."""
        return self._iterate(self.operations.list(prefix, after), StreamInfo)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        safe: bool | None = None,
    ) -> Response:
        """Send any other request, with the same token, retries and errors. `path` is a path of the server: /v1/streams.

        `safe` says whether it may be sent twice. By default, GET, HEAD, PUT, DELETE and OPTIONS are safe.
        """
        return self.run(self.operations.request(method, path, body, headers, params, safe))

    # Appending

    def append(
        self,
        path: str,
        data: Any,
        *,
        content_type: str | None = None,
        seq: str | None = None,
        if_match: str | None = None,
        producer: Producer | None = None,
        close: bool = False,
    ) -> Appended:
        """Append once, even with retries. Bytes stay as they are; in a JSON stream any other value is one message."""
        operation = self.operations.append(
            path, data, content_type, seq=seq, if_match=if_match, producer=producer, close=close
        )
        return self.run(operation)

    def append_json(
        self,
        path: str,
        *messages: Any,
        seq: str | None = None,
        if_match: str | None = None,
        producer: Producer | None = None,
        close: bool = False,
    ) -> Appended:
        """Append messages to a JSON stream: all of them or none."""
        options = {"seq": seq, "if_match": if_match, "producer": producer, "close": close}
        return self.run(self.operations.append_messages(path, messages, **options))

    def close(
        self, path: str, data: Any = None, *, content_type: str | None = None, producer: Producer | None = None
    ) -> Appended:
        """Close a stream for good, with optional last data. Closing it again changes nothing."""
        return self.run(self.operations.close(path, data, content_type, producer))

    # Reading

    def read(
        self, path: str, offset: str = BEGINNING, *, until_up_to_date: bool = True
    ) -> Generator[Batch, None, None]:
        """Yield the data from `offset` to the end, batch by batch; without `until_up_to_date`, only the next batch."""
        return self._iterate(self.operations.read(path, offset, until_up_to_date), Batch)

    def read_bytes(self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX) -> bytes:
        return self._collect("read_bytes", path, offset, bytes_max).join()

    def read_text(self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX) -> str:
        return self._collect("read_text", path, offset, bytes_max).join_text()

    def read_json(
        self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX
    ) -> Messages:
        """Return all messages of a JSON stream from `offset`."""
        return self._collect("read_json", path, offset, bytes_max).join_messages()

    def read_tail(self, path: str, count: int) -> Batch:
        """Return the last `count` messages of a stream."""
        return self.run(self.operations.read_tail(path, count))

    def follow(self, path: str, offset: str = BEGINNING, *, live: Live = "auto") -> Generator[Batch, None, None]:
        """Yield the data from `offset`, and new data as it arrives, until the stream is closed.

        It reconnects automatically. "auto" uses SSE, and falls back to long-poll where SSE does not work.
        """
        return self._iterate(Follower(self.operations, path, offset, live).run(), Batch)

    def _collect(self, call: str, path: str, offset: str, bytes_max: int) -> Collector:
        collector = Collector(path, bytes_max)
        for batch in self._iterate(self.operations.read(path, offset, True, call), Batch):
            collector.add(batch)
        return collector

    # Performing the effects of operations

    def run(self, operation: Operation[T]) -> T:
        """Run an operation and return its result. The producers of this package use it."""
        performer = _Performer(self._http, self.url, self._timeout_s)
        advance = partial(operation.send, None)
        try:
            while True:
                try:
                    effect = advance()
                except StopIteration as end:
                    result: T = end.value
                    return result
                advance = performer.perform(effect, operation)
        finally:
            operation.close()
            performer.close()

    def _iterate(self, operation: Generator[Effect | T, Any, None], kind: type[T]) -> Generator[T, None, None]:
        performer = _Performer(self._http, self.url, self._timeout_s)
        advance = partial(operation.send, None)
        try:
            while True:
                try:
                    effect = advance()
                except StopIteration:
                    return
                if isinstance(effect, kind):
                    yield effect
                    advance = partial(operation.send, None)
                else:
                    advance = performer.perform(effect, operation)
        finally:
            operation.close()
            performer.close()


class _Performer:
    """Performs the effects of one operation, and holds its open response."""

    def __init__(self, http: httpx2.Client, url: str, timeout_s: float) -> None:
        self._http = http
        self._url = url
        self._timeout_s = timeout_s
        self._opened: httpx2.Response | None = None
        self._pieces: Iterator[bytes] | None = None

    def perform(self, effect: Any, operation: Generator[Any, Any, Any]) -> "partial[Any]":
        """Perform an effect, and return a call that resumes the operation with the result."""
        try:
            return partial(operation.send, self._perform(effect))
        except NoResponse as error:
            return partial(operation.throw, error)

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Receive):
            return self._receive()
        self.close()
        if isinstance(effect, Wait):
            return time.sleep(effect.seconds)
        if isinstance(effect, Invoke):
            return effect.function()
        try:
            return self._send(effect.request, keep=isinstance(effect, Open))
        except transports.HTTP_ERRORS as error:
            raise transports.translate_error(error) from error

    def close(self) -> None:
        opened, self._opened, self._pieces = self._opened, None, None
        if opened is not None:
            opened.close()

    def _send(self, request: Request, *, keep: bool) -> Response:
        transports.check_open(self._http.is_closed)
        options = transports.request_options(self._url, request, self._timeout_s)
        if request.on_body_sent is not None:
            options["content"] = _stream_body(request.body, request.on_body_sent)
        response = self._http.send(self._http.build_request(**options), stream=True)
        if keep and response.is_success:
            self._opened = response
            self._pieces = response.iter_bytes() if "content-encoding" in response.headers else response.iter_raw()
            return transports.read_head(response)
        try:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                transports.check_size(len(body))
            return transports.read_head(response, bytes(body))
        finally:
            response.close()

    def _receive(self) -> bytes:
        assert self._pieces is not None
        try:
            for piece in self._pieces:
                if piece:
                    return piece
        except transports.HTTP_ERRORS as error:
            raise transports.translate_error(error) from error
        return b""


def _stream_body(body: bytes, on_body_sent: Callable[[], None]) -> Iterator[bytes]:
    yield body
    on_body_sent()
