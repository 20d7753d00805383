"""The streams client for asyncio. Its twin for blocking code is `mainstem.client.blocking.streams`."""

import asyncio
import inspect
import random
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from mainstem import limits
from mainstem.client import transports
from mainstem.client.aio.keyed_lock import KeyedLock
from mainstem.client.aio.transport import HttpTransport, Reply, Transport
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


class AsyncStreams:
    """A client of one server: `async with AsyncStreams("http://127.0.0.1:4437") as streams:`.

    `prefix` is the path under which the server serves streams: its setting `stream_prefix`.
    `token` and each value of `headers` and `params` is a str, or a callable that returns one for each request.
    `timeout_s` is how long the server may be silent. `on_retry` is called with a `Retry` before each retry; without it,
    the client logs a warning.
    `http` is an `httpx2.AsyncClient` of your own, which the client does not close. `transport` reaches the server in
    another way than HTTP; `Mainstem.client` uses it.
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
        http: httpx2.AsyncClient | None = None,
        transport: Transport | None = None,
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
        self._seq_lock = KeyedLock()
        if transport is None:
            client = http or httpx2.AsyncClient(**transports.client_options(self.url, timeout_s, verify))
            transport = HttpTransport(client, self.url, timeout_s, owns_http=http is None)
        self._transport = transport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connections of this client. It does not touch any stream."""
        await self._transport.close()

    # Streams

    async def create(
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
        return await self.run(self.operations.create(path, content_type, body, **options))

    async def fork(
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
        return await self.run(self.operations.create(path, content_type, body, **options))

    async def head(self, path: str) -> StreamInfo:
        return await self.run(self.operations.head(path))

    async def delete(self, path: str) -> None:
        await self.run(self.operations.delete(path))

    def list(self, prefix: str = "", *, after: str = "") -> AsyncGenerator[StreamInfo, None]:
        """List the streams whose paths begin with `prefix`, in order, from the first path after `after`."""
        return self._iterate(self.operations.list(prefix, after), StreamInfo)

    async def request(
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
        return await self.run(self.operations.request(method, path, body, headers, params, safe))

    # Appending

    async def append(
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
        return await self._append(path, operation, seq)

    async def append_json(
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
        return await self._append(path, self.operations.append_messages(path, messages, **options), seq)

    async def close(
        self, path: str, data: Any = None, *, content_type: str | None = None, producer: Producer | None = None
    ) -> Appended:
        """Close a stream for good, with optional last data. Closing it again changes nothing."""
        return await self.run(self.operations.close(path, data, content_type, producer))

    async def _append(self, path: str, operation: Operation[Appended], seq: str | None) -> Appended:
        if seq is None:
            return await self.run(operation)
        async with self._seq_lock.hold(path):  # on another connection, a later seq could overtake an earlier one
            return await self.run(operation)

    # Reading

    def read(self, path: str, offset: str = BEGINNING, *, until_up_to_date: bool = True) -> AsyncGenerator[Batch, None]:
        """Yield the data from `offset` to the end, batch by batch; without `until_up_to_date`, only the next batch."""
        return self._iterate(self.operations.read(path, offset, until_up_to_date), Batch)

    async def read_bytes(
        self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX
    ) -> bytes:
        return (await self._collect("read_bytes", path, offset, bytes_max)).join()

    async def read_text(
        self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX
    ) -> str:
        return (await self._collect("read_text", path, offset, bytes_max)).join_text()

    async def read_json(
        self, path: str, offset: str = BEGINNING, *, bytes_max: int = limits.CLIENT_READ_BYTES_MAX
    ) -> Messages:
        """Return all messages of a JSON stream from `offset`."""
        return (await self._collect("read_json", path, offset, bytes_max)).join_messages()

    async def read_tail(self, path: str, count: int) -> Batch:
        """Return the last `count` messages of a stream."""
        return await self.run(self.operations.read_tail(path, count))

    def follow(self, path: str, offset: str = BEGINNING, *, live: Live = "auto") -> AsyncGenerator[Batch, None]:
        """Yield the data from `offset`, and new data as it arrives, until the stream is closed.

        It reconnects automatically. "auto" uses SSE, and falls back to long-poll where SSE does not work.
        """
        return self._iterate(Follower(self.operations, path, offset, live).run(), Batch)

    async def _collect(self, call: str, path: str, offset: str, bytes_max: int) -> Collector:
        collector = Collector(path, bytes_max)
        async for batch in self._iterate(self.operations.read(path, offset, True, call), Batch):
            collector.add(batch)
        return collector

    # Performing the effects of operations

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation and return its result. The producers of this package use it."""
        performer = _Performer(self._transport)
        advance = partial(operation.send, None)
        try:
            while True:
                try:
                    effect = advance()
                except StopIteration as end:
                    result: T = end.value
                    return result
                advance = await performer.perform(effect, operation)
        finally:
            operation.close()
            await performer.close()

    async def _iterate(self, operation: Generator[Effect | T, Any, None], kind: type[T]) -> AsyncGenerator[T, None]:
        performer = _Performer(self._transport)
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
                    advance = await performer.perform(effect, operation)
        finally:
            operation.close()
            await performer.close()


class _Performer:
    """Performs the effects of one operation, and holds its open reply."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._opened: Reply | None = None

    async def perform(self, effect: Any, operation: Generator[Any, Any, Any]) -> "partial[Any]":
        """Perform an effect, and return a call that resumes the operation with the result."""
        try:
            return partial(operation.send, await self._perform(effect))
        except NoResponse as error:
            return partial(operation.throw, error)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Receive):
            assert self._opened is not None
            return await self._opened.receive()
        await self.close()
        if isinstance(effect, Wait):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Invoke):
            value = effect.function()
            return await value if inspect.isawaitable(value) else value
        return await self._send(effect.request, keep=isinstance(effect, Open))

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def _send(self, request: Request, *, keep: bool) -> Response:
        reply = await self._transport.send(request)
        if keep and reply.head.ok:
            self._opened = reply
            return reply.head
        try:
            body = bytearray()
            while piece := await reply.receive():
                body += piece
                transports.check_size(len(body))
            return replace(reply.head, body=bytes(body))
        finally:
            await reply.close()
