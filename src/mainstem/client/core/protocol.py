"""The wire format of streams: bodies, and the meaning of replies. requests.py builds the requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from mainstem.client.core.errors import BadArgument, InvalidResponse
from mainstem.client.core.results import Appended, Batch, StreamInfo, split_messages
from mainstem.client.core.strict_json import NotJson, encode_json
from mainstem.json_errors import explain_json_error
from mainstem.streams.rules.content_types import is_json

T = TypeVar("T")

LIST = "/v1/streams"
BINARY = "application/octet-stream"
BEGINNING = "-1"
NOW = "now"

Producer = tuple[str, int, int]
"""Id, epoch and seq."""


@dataclass(frozen=True)
class Request:
    """One request, complete except for the token and the headers that the client adds to every request."""

    method: str
    target: str
    """Path and query, relative to the address of the server."""
    subject: str
    """What the request is about, for errors: the path of the stream."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    read_timeout_s: float | None = None
    """How long the server may be silent; None stands for the client's `timeout_s`."""
    safe: bool = True
    """Whether sending it twice does no harm."""
    on_body_sent: Callable[[], None] | None = None
    """Called when the whole body has left."""
    call: str = ""
    """The method of the client that the user called, for errors; empty for `request()`, where the method is enough."""

    def __str__(self) -> str:
        return f"{self.call or self.method} {self.subject}"


@dataclass(frozen=True)
class Response:
    """A reply. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return decode_json(self.body, Any, "the reply")


def with_query(target: str, query: Mapping[str, str] | None) -> str:
    return f"{target}{'&' if '?' in target else '?'}{urlencode(query)}" if query else target


# Writing


def check_headers(headers: Mapping[str, str | None]) -> dict[str, str]:
    """Return the headers that have a value. A value that could end its line early is refused."""
    found = {}
    for name, value in headers.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise BadArgument(f"{name} must be a str, not {type(value).__name__}")
        if "\r" in value or "\n" in value or "\0" in value:
            raise BadArgument(f"{name} must not contain a line break or a null character: {value[:64]!r}")
        found[name] = value
    return found


def read_info(path: str, response: Response) -> StreamInfo:
    headers = response.headers
    ttl = headers.get("stream-ttl")
    return StreamInfo(
        path=path,
        content_type=headers.get("content-type", BINARY),
        next_offset=next_offset(response),
        closed=is_closed(response),
        ttl_s=int(ttl) if ttl is not None and ttl.isascii() and ttl.isdigit() else None,
        expires_at=headers.get("stream-expires-at"),
        retention=headers.get("stream-retention"),
        earliest_offset=headers.get("stream-earliest-offset"),
        created=response.status == 201 if response.status in (200, 201) else None,
    )


def read_appended(response: Response, *, produced: bool) -> Appended:
    headers = response.headers
    return Appended(
        next_offset=headers.get("stream-next-offset", ""),
        duplicate=produced and response.status == 204,
        closed=is_closed(response),
        producer_epoch=_integer(headers.get("producer-epoch")),
        producer_seq=_integer(headers.get("producer-seq")),
    )


def encode(data: Any, content_type: str) -> bytes:
    """Return the body of one append. Bytes stay as they are; other values become one JSON message, or UTF-8 text."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if is_json(content_type):
        return encode_messages([data])
    if isinstance(data, str):
        return data.encode()
    raise BadArgument(f"a stream of {content_type} takes bytes or str, not {type(data).__name__}")


def encode_messages(messages: Sequence[Any]) -> bytes:
    """Return the body that appends several messages to a JSON stream: the server stores each item of an array."""
    return encode_value(messages)


def encode_value(value: Any) -> bytes:
    try:
        return encode_json(value)
    except NotJson as error:
        raise BadArgument(f"this message cannot be written as JSON: {error}") from None


# Reading


def read_batch(response: Response, content_type: str = "") -> Batch:
    """Return a page, or the reply to a long-poll, as a batch. A 204 names no content type, so the caller passes it."""
    batch = Batch(
        data=response.body,
        offset=next_offset(response),
        content_type=response.headers.get("content-type", content_type) or BINARY,
        up_to_date="stream-up-to-date" in response.headers,
        closed=is_closed(response),
        earliest_offset=response.headers.get("stream-earliest-offset"),
        cursor=response.headers.get("stream-cursor"),
    )
    return check_batch(batch)


def check_batch(batch: Batch) -> Batch:
    """Return the batch, or raise `InvalidResponse` if a JSON stream's data is not an array of messages.

    The messages are not decoded: one that Python cannot hold must not keep a reader from the others.
    """
    if batch.data and is_json(batch.content_type):
        try:
            batch.data.decode()
            split_messages(batch.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidResponse(explain_json_error(error, f"the batch that ends at {batch.offset}")) from error
    return batch


def next_offset(response: Response) -> str:
    offset = response.headers.get("stream-next-offset")
    if not offset:
        raise InvalidResponse(
            f"the reply ({response.status}) has no Stream-Next-Offset header, so no Durable Streams server sent it"
        )
    return offset


def is_closed(response: Response) -> bool:
    return response.headers.get("stream-closed", "").lower() == "true"


# Listing


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    content_type: str
    next_offset: str
    earliest_offset: str | None = None
    closed: bool = False
    created_at: str | None = None
    ttl_seconds: int | None = None
    expires_at: str | None = None
    forked_from: str | None = None
    messages: int | None = None
    bytes: int | None = None


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    streams: list[Listed]
    next: str | None = None


def list_streams(prefix: str, after: str, limit: int) -> Request:
    query = {"prefix": prefix, "after": after, "limit": str(limit)}
    return Request("GET", with_query(LIST, {name: value for name, value in query.items() if value}), LIST, call="list")


def read_listing(response: Response) -> tuple[list[StreamInfo], str | None]:
    listing = decode_json(response.body, Listing, "the list of streams")
    found = [
        StreamInfo(
            path=item.path,
            content_type=item.content_type,
            next_offset=item.next_offset,
            earliest_offset=item.earliest_offset,
            closed=item.closed,
            created_at=item.created_at,
            ttl_s=item.ttl_seconds,
            expires_at=item.expires_at,
            forked_from=item.forked_from,
            messages=item.messages,
            size_bytes=item.bytes,
        )
        for item in listing.streams
    ]
    return found, listing.next


def decode_json(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidResponse(f"{what} is not the JSON that this request asks for") from error


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
