"""Every operation of the streams client, as a generator of effects. See effects.py."""

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

from mainstem import limits
from mainstem.client.core import protocol
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
from mainstem.client.core.retries import Retries
from mainstem.client.core.sender import Sender, TextSource
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.paths import PREFIX_FORM

GAPS_MAX = 3  # a stream that is deleted and created again and again
ReadOperation = Generator[Effect | Batch, Any, None]
"""An operation that yields batches as well as effects."""


def check_prefix(prefix: str) -> str:
    """Another server may serve streams anywhere, so only the form is checked; empty is its root."""
    if prefix and not PREFIX_FORM.fullmatch(prefix):
        raise BadArgument(f"{prefix!r} cannot be a prefix of streams; write it as /v1/streams")
    return prefix


def check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise BadArgument(f"{url!r} is not the address of a server, as http://127.0.0.1:4437")
    return url.rstrip("/")


class Operations:
    """What both clients share. Many threads or tasks use it at once, and it holds no state of any one operation."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        token: TextSource | None,
        headers: Mapping[str, TextSource] | None,
        params: Mapping[str, TextSource] | None,
        retries: Retries | None,
        exactly_once: bool,
        make_id: Callable[[], str],
        chance: Callable[[], float],
        clock_s: Callable[[], float],
    ) -> None:
        self.sender = Sender(check_url(url), token, headers or {}, params or {}, retries or Retries(), chance, clock_s)
        self.send = self.sender.send
        self.requests = StreamRequests(check_prefix(prefix))
        self._exactly_once = exactly_once
        self.make_id = make_id
        self._producers = ProducerPool(make_id)
        self._types: OrderedDict[str, str] = OrderedDict()

    # Streams

    def create(self, path: str, content_type: str | None, body: Any, **options: Any) -> Operation[StreamInfo]:
        """A stream of its own or, with forked_from, a fork."""
        data = b""
        if body is not None:
            if content_type is None:
                raise BadArgument("a fork with a first body needs its content_type")
            data = protocol.encode(body, content_type)
        response = yield from self.send(self.requests.create(path, content_type, body=data, **options))
        info = protocol.read_info(path, response)
        self._remember_type(path, info.content_type)
        return info

    def head(self, path: str) -> Operation[StreamInfo]:
        response = yield from self.send(self.requests.head(path))
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
            raise BadArgument(f"{target!r} is not a path of the server: begin it with a slash, as /v1/streams")
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
    ) -> Operation[Appended]:
        content_type = content_type or (yield from self.find_type(path))
        body = protocol.encode(data, content_type)
        if not body:
            raise BadArgument("there is nothing to append; to end a stream, close it")
        return (yield from self._post(path, body, content_type, producer, seq=seq, if_match=if_match, close=close))

    def append_messages(self, path: str, messages: tuple[Any, ...], **options: Any) -> Operation[Appended]:
        if not messages:
            raise BadArgument("there is no message to append")
        body = protocol.encode_messages(messages)
        return (yield from self.append(path, body, "application/json", **options))

    def close(self, path: str, data: Any, content_type: str | None, producer: Producer | None) -> Operation[Appended]:
        if data is not None:
            return (
                yield from self.append(path, data, content_type, seq=None, if_match=None, producer=producer, close=True)
            )
        request = self.requests.append(path, b"", None, producer=producer, close=True)
        response = yield from self.send(request)
        return protocol.read_appended(response, produced=False)

    def find_type(self, path: str) -> Operation[str]:
        """The content type of a stream; the server is asked once."""
        known = self._types.get(path)
        return known or (yield from self.head(path)).content_type

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
                # The stream was deleted and created again, and knows nobody. A gap is refused before it is stored.
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
            known = True  # refused: the number is still free
            raise
        finally:
            if not known:
                pooled.bump_epoch()  # also when the caller was cancelled meanwhile
            self._producers.release(path, pooled)

    # ReadOperation

    def read(self, path: str, offset: str, until_up_to_date: bool) -> ReadOperation:
        while True:
            response = yield from self.send(self.requests.read(path, offset))
            batch = self.read_page(path, response)
            yield batch
            if batch.up_to_date or batch.closed or not until_up_to_date:
                return
            if batch.offset == offset:
                raise InvalidResponse(f"GET {path}: the server says that there is more, but not after {offset}")
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
                return  # another thread has made room


class Collector:
    """Joins batches into one value, up to a size."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._bytes_left = bytes_max
        self.batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self._bytes_left -= len(batch.data)
        if self._bytes_left < 0:
            raise TooMuchData(f"{self._path} holds more than this call may collect")
        self.batches.append(batch)

    def join(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    def join_text(self) -> str:
        try:
            return self.join().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadArgument(f"{self._path} is not text in UTF-8 ({error.reason}): use read_bytes") from None

    def join_messages(self) -> list[Any]:
        for batch in self.batches:
            if not is_json(batch.content_type):
                raise BadArgument(f"{self._path} is {batch.content_type} and no JSON: use read_bytes or read_text")
        return [message for batch in self.batches for message in batch.messages]
