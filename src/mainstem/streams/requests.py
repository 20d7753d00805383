"""A request's headers, query and body as typed values. Whatever is malformed or repeated is refused here."""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from mainstem import limits
from mainstem.errors import BadHeader, BadQuery, BodyCutShort, BodyTooLarge, RepeatedHeader
from mainstem.streams.beginnings import Lifetime
from mainstem.streams.lifecycle import parse_expires_at, parse_ttl
from mainstem.streams.offsets import Offset, Sentinel, parse_offset
from mainstem.streams.retention import parse_retention
from mainstem.streams.states import ProducerTuple, Retention

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

# Headers that mean one thing; a second one would leave it to chance which counts.
SINGLE = frozenset(
    [
        b"content-type",
        b"content-length",
        b"stream-closed",
        b"stream-seq",
        b"stream-ttl",
        b"stream-expires-at",
        b"stream-forked-from",
        b"stream-fork-offset",
        b"stream-fork-sub-offset",
        b"stream-retention",
        b"if-match",
        b"producer-id",
        b"producer-epoch",
        b"producer-seq",
        b"last-event-id",
        b"host",
        b"origin",
    ]
)
INTEGER = re.compile(rb"0|[1-9][0-9]{0,15}")


def collect_headers(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    headers: Headers = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif name in SINGLE:
            raise RepeatedHeader(f"{name.decode('latin-1')} was sent more than once")
        else:
            headers[name] += b", " + value
    return headers


# A name or an IPv4 address, or an IPv6 address in brackets; then a port. Nothing that could end or extend a URL.
HOST = re.compile(rb"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
SCHEMES = frozenset([b"http", b"https"])


def origin(scope: Scope, headers: Headers) -> str:
    """Scheme and host as the client addressed them; behind a proxy, as the outermost one was addressed.

    They end up in URLs that others follow, so what is not plainly a scheme or a host counts as not sent.
    """
    scheme = _outermost(headers, b"x-forwarded-proto").lower()
    host = _outermost(headers, b"x-forwarded-host")
    if scheme not in SCHEMES:
        scheme = b"https" if scope.get("scheme") == "https" else b"http"
    if not HOST.fullmatch(host):
        host = headers.get(b"host", b"")
    return f"{scheme.decode()}://{host.decode() if HOST.fullmatch(host) else 'localhost'}"


def _outermost(headers: Headers, name: bytes) -> bytes:
    """The first of the values that proxies have put one after another."""
    return headers.get(name, b"").partition(b",")[0].strip()


def text_header(headers: Headers, name: bytes, bytes_max: int) -> str | None:
    """A header as text; None if it is not there."""
    value = headers.get(name)
    if value is None:
        return None
    if len(value) > bytes_max:
        raise BadHeader(f"{name.decode()} is longer than {bytes_max} bytes")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise BadHeader(f"{name.decode()} is not UTF-8") from None


def is_true(headers: Headers, name: bytes) -> bool:
    """Only `true`, in any case, counts (protocol 4.1); everything else is as if it were absent."""
    return headers.get(name, b"").lower() == b"true"


def read_producer(headers: Headers) -> ProducerTuple | None:
    producer_id = text_header(headers, b"producer-id", limits.PRODUCER_ID_BYTES_MAX)
    epoch, seq = headers.get(b"producer-epoch"), headers.get(b"producer-seq")
    if producer_id is None and epoch is None and seq is None:
        return None
    if producer_id is None or epoch is None or seq is None:
        raise BadHeader("Producer-Id, Producer-Epoch and Producer-Seq go together")
    if not producer_id:
        raise BadHeader("Producer-Id is empty")
    return ProducerTuple(producer_id, _integer(b"Producer-Epoch", epoch), _integer(b"Producer-Seq", seq))


def read_lifetime(headers: Headers) -> Lifetime:
    ttl = text_header(headers, b"stream-ttl", 64)
    expires_at = text_header(headers, b"stream-expires-at", 64)
    if ttl is not None and expires_at is not None:
        raise BadHeader("Stream-TTL and Stream-Expires-At exclude each other")
    if ttl is not None:
        return Lifetime(ttl_s=parse_ttl(ttl))
    if expires_at is not None:
        return Lifetime(expires_at_us=parse_expires_at(expires_at), expires_at_text=expires_at)
    return Lifetime()


def read_retention(headers: Headers) -> Retention | None:
    text = text_header(headers, b"stream-retention", 256)
    return None if text is None else parse_retention(text)


def read_if_match(headers: Headers) -> Offset | None:
    """`If-Match: <offset>`, with or without quotes: append only if that is still the end of the stream."""
    text = text_header(headers, b"if-match", 64)
    if text is None:
        return None
    offset = parse_offset(text.strip('"'))
    if not isinstance(offset, Offset):
        raise BadHeader("If-Match takes an offset that this server sent")
    return offset


def _integer(name: bytes, value: bytes) -> int:
    if not INTEGER.fullmatch(value) or int(value) > limits.INTEGER_MAX:
        raise BadHeader(f"{name.decode()} is not a whole number from 0 to 2^53-1")
    return int(value)


def parse_query(scope: Scope) -> list[tuple[str, str]]:
    """The query parameters in order, percent-decoded."""
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    if len(raw) > limits.QUERY_BYTES_MAX:
        raise BadQuery(f"the query is longer than {limits.QUERY_BYTES_MAX} bytes")
    return parse_qsl(raw.decode("latin-1"), keep_blank_values=True)


def read_query(scope: Scope) -> dict[str, str]:
    """The query parameters by name. One that we know must not be given twice."""
    query: dict[str, str] = {}
    for name, value in parse_query(scope):
        if name in query and name in ("offset", "live", "cursor", "tail", "prefix", "after", "limit"):
            raise BadQuery(f"{name} was given more than once")
        query[name] = value
    return query


def parse_read(headers: Headers, scope: Scope) -> tuple[str | None, Offset | Sentinel, str | None]:
    """What a GET asks for: the live mode (None for catch-up), the offset, and the client's cursor."""
    query = read_query(scope)
    live = query.get("live")
    if live not in (None, "false", "long-poll", "sse"):
        raise BadQuery("live is long-poll or sse")
    if live == "false":
        live = None
    if live is not None and "offset" not in query:
        raise BadQuery(f"live={live} needs an offset")
    wanted = query.get("offset", "-1")
    if live == "sse":
        wanted = headers.get(b"last-event-id", b"").decode("latin-1") or wanted
    return live, parse_offset(wanted), query.get("cursor")


async def read_body(headers: Headers, receive: Receive, bytes_max: int) -> bytes:
    """The whole body, or an error before it grows beyond the limit."""
    declared = headers.get(b"content-length")
    if declared is not None and int(declared) > bytes_max:
        if b"expect" not in headers:  # else the client waits with its body for our word
            await _discard({"type": "http.request", "more_body": True}, receive)
        raise _too_large(bytes_max)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        return body
    return await _gather(message, receive, bytes_max)


async def _gather(message: MutableMapping[str, Any], receive: Receive, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise BodyCutShort("the client left before its body was complete")
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            await _discard(message, receive)
            raise _too_large(bytes_max)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()


async def _discard(message: MutableMapping[str, Any], receive: Receive) -> None:
    """Take in what is left of a body, up to a bound: many clients look for the answer when all of it is sent."""
    left = limits.BODY_DISCARD_BYTES_MAX
    while left > 0 and message["type"] == "http.request" and message.get("more_body", False):
        left -= len(message.get("body", b""))
        message = await receive()


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {bytes_max} bytes", limit_bytes=bytes_max)
