"""The operations of the streams client, as generators of effects. See effects.py."""

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from typing import Any

from mainstem import limits
from mainstem.client.core import protocol
from mainstem.client.core.addresses import check_prefix, check_url
from mainstem.client.core.effects import Effect, Operation
from mainstem.client.core.errors import (
    BadArgument,
    ClientError,
    ContentTypeMismatch,
    InvalidResponse,
    OutcomeUnknown,
    ProducerGap,
    TooMuchData,
)
from mainstem.client.core.producer_pool import PooledProducer, ProducerPool
from mainstem.client.core.protocol import Producer, Request, Response
from mainstem.client.core.requests import StreamRequests
from mainstem.client.core.results import Appended, Batch, StreamInfo
from mainstem.client.core.retries import Retries, Retry
from mainstem.client.core.sender import Sender, TextSource
from mainstem.streams.rules.content_types import is_json

GAPS_MAX = 3  # a stream may be deleted and created again while an append is on its way
ReadOperation = Generator[Effect | Batch, Any, None]
"""An operation that yields batches as well as effects."""


class Operations:
    """The operations that both clients share. Many threads or tasks may run operations at the same time."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        token: TextSource | None,
        headers: Mapping[str, TextSource] | None,
        params: Mapping[str, TextSource] | None,
        retries: Retries | None,
        report: Callable[[Retry], None],
        exactly_once: bool,
        make_id: Callable[[], str],
        chance: Callable[[], float],
        clock_s: Callable[[], float],
    ) -> None:
        self.sender = Sender(
            url=check_url(url, check_prefix(prefix)),
            token=token,
            headers=headers or {},
            params=params or {},
            retries=retries or Retries(),
            first_retries=retries or Retries(attempts_max=limits.CLIENT_FIRST_ATTEMPTS),
            chance=chance,
            clock_s=clock_s,
            report=report,
        )
        self.send = self.sender.send
        self.requests = StreamRequests(prefix)
        self._exactly_once = exactly_once
        self.make_id = make_id
        self._producers = ProducerPool(make_id)
        self._types: OrderedDict[str, str] = OrderedDict()

    # Streams

    def create(self, path: str, content_type: str | None, body: Any, **options: Any) -> Operation[StreamInfo]:
        """Create a stream or, with `forked_from`, a fork."""
        data = b""
        if body is not None:
            if content_type is None:
                raise BadArgument("pass content_type= too: a fork with a body needs it")
            data = protocol.encode(body, content_type)
        call = "create" if options.get("forked_from") is None else "fork"
        response = yield from self.send(self.requests.create(path, content_type, call=call, body=data, **options))
        info = protocol.read_info(path, response)
        self._remember_type(path, info.content_type)
        return info

    def head(self, path: str, call: str = "head") -> Operation[StreamInfo]:
        response = yield from self.send(self.requests.head(path, call))
        info = protocol.read_info(path, Response(0, response.headers))
        self._remember_type(path, info.content_type)
        return info

    def delete(self, path: str) -> Operation[None]:
        yield from self.send(self.requests.delete(path))
        self._producers.forget(path)
        self._types.pop(path, None)

    def list(self, prefix: str, after: str) -> Generator[Effect | StreamInfo, Any, None]:
        while True:
            request = protocol.list_streams(prefix, after, limits.LISTED_STREAMS_MAX)
            found, following = protocol.read_listing((yield from self.send(request)))
            yield from found
            if following is None:
                return
            after = following

    def request(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        safe: bool | None,
    ) -> Operation[Response]:
        if not target.startswith("/"):
            raise BadArgument(f"the path {target!r} must begin with a slash, like /v1/streams")
        method = method.upper()
        lower = protocol.check_headers({name.lower(): value for name, value in (headers or {}).items()})
        harmless = method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS") if safe is None else safe
        full = protocol.with_query(target, params)
        return (yield from self.send(Request(method, full, target, lower, body, safe=harmless)))

    # Appending

    def append(
        self,
        path: str,
        data: Any,
        content_type: str | None,
        *,
        seq: str | None,
        if_match: str | None,
        producer: Producer | None,
        close: bool,
        call: str = "append",
    ) -> Operation[Appended]:
        content_type = content_type or (yield from self.find_type(path, call))
        body = protocol.encode(data, content_type)
        if not body:
            raise BadArgument("there is nothing to append: data is empty; to end a stream, call close")
        options = {"call": call, "seq": seq, "if_match": if_match, "close": close}
        return (yield from self._post(path, body, content_type, producer, **options))

    def append_messages(self, path: str, messages: tuple[Any, ...], **options: Any) -> Operation[Appended]:
        if not messages:
            raise BadArgument("append_json needs at least one message")
        body = protocol.encode_messages(messages)
        return (yield from self.append(path, body, "application/json", call="append_json", **options))

    def close(self, path: str, data: Any, content_type: str | None, producer: Producer | None) -> Operation[Appended]:
        if data is not None:
            options: dict[str, Any] = {"seq": None, "if_match": None, "producer": producer, "close": True}
            return (yield from self.append(path, data, content_type, call="close", **options))
        request = self.requests.append(path, b"", None, producer=producer, close=True, call="close")
        response = yield from self.send(request)
        return protocol.read_appended(response, produced=False)

    def find_type(self, path: str, call: str) -> Operation[str]:
        """Return the content type of a stream. The client asks the server once per stream."""
        known = self._types.get(path)
        return known or (yield from self.head(path, call)).content_type

    def _post(
        self, path: str, body: bytes, content_type: str, producer: Producer | None, **options: Any
    ) -> Operation[Appended]:
        try:
            if producer is not None or not self._exactly_once:
                request = self.requests.append(path, body, content_type, producer=producer, **options)
                response = yield from self.send(request)
                return protocol.read_appended(response, produced=producer is not None)
            return (yield from self._post_exactly_once(path, body, content_type, **options))
        except ContentTypeMismatch:
            self._types.pop(path, None)
            raise

    def _post_exactly_once(self, path: str, body: bytes, content_type: str, **options: Any) -> Operation[Appended]:
        for _ in range(GAPS_MAX):
            pooled = self._producers.acquire(path)
            try:
                return (yield from self._post_as(pooled, path, body, content_type, **options))
            except ProducerGap as gap:
                # The stream was deleted and created again, so it knows no producer. Nothing is stored after a gap.
                self._producers.forget(path)
                last = gap
        raise last

    def _post_as(
        self, pooled: PooledProducer, path: str, body: bytes, content_type: str, **options: Any
    ) -> Operation[Appended]:
        numbers = (pooled.producer_id, pooled.epoch, pooled.seq)
        known = False
        try:
            request = self.requests.append(path, body, content_type, producer=numbers, **options)
            response = yield from self.send(request)
            known = True
            pooled.advance()
            return protocol.read_appended(response, produced=True)
        except ProducerGap:
            raise
        except OutcomeUnknown:
            raise
        except ClientError:
            known = True  # the server refused the append, so the number is still free
            raise
        finally:
            if not known:
                pooled.bump_epoch()  # even if the caller was cancelled
            self._producers.release(path, pooled)

    # Reading

    def read(self, path: str, offset: str, until_up_to_date: bool, call: str = "read") -> ReadOperation:
        while True:
            response = yield from self.send(self.requests.read(path, offset, call))
            batch = self.read_page(path, response)
            yield batch
            if batch.up_to_date or batch.closed or not until_up_to_date:
                return
            if batch.offset == offset:
                raise InvalidResponse(f"{call} {path}: the server announces more data but sends none after {offset}")
            offset = batch.offset

    def read_tail(self, path: str, count: int) -> Operation[Batch]:
        response = yield from self.send(self.requests.read_tail(path, count))
        return self.read_page(path, response)

    def read_page(self, path: str, response: Response) -> Batch:
        batch = protocol.read_batch(response, self._types.get(path, ""))
        self._remember_type(path, batch.content_type)
        return batch

    def _remember_type(self, path: str, content_type: str) -> None:
        self._types[path] = content_type
        if len(self._types) > limits.CLIENT_STREAMS_KNOWN_MAX:
            try:
                self._types.popitem(last=False)
            except KeyError:
                return  # another thread has removed it


class Collector:
    """Joins batches into one value of limited size."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._bytes_left = bytes_max
        self.batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self._bytes_left -= len(batch.data)
        if self._bytes_left < 0:
            raise TooMuchData(f"{self._path} holds more than the {self._bytes_max} bytes that this call may collect")
        self.batches.append(batch)

    def join(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    def join_text(self) -> str:
        try:
            return self.join().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadArgument(f"{self._path} is not UTF-8 text: use read_bytes") from error

    def join_messages(self) -> list[Any]:
        for batch in self.batches:
            if not is_json(batch.content_type):
                raise BadArgument(f"{self._path} is {batch.content_type}, not JSON: use read_bytes or read_text")
        return [message for batch in self.batches for message in batch.messages]
