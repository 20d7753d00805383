"""The headers, query and body of a request as typed values. Malformed and repeated ones are refused here."""

import re
from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from mainstem import limits
from mainstem.errors import (
    BadHeader,
    BadQuery,
    BadRequest,
    BodyCutShort,
    BodyTooLarge,
    MainstemError,
    RepeatedHeader,
)
from mainstem.http.asgi import Headers, Receive, Scope
from mainstem.http.headers import SINGLE_HEADERS
from mainstem.json_errors import explain_json_error

T = TypeVar("T")


def collect_headers(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a request by name. Raises `RepeatedHeader` if one that must be single is repeated."""
    headers: Headers = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif name in SINGLE_HEADERS:
            raise RepeatedHeader(f"the header {name.decode('latin-1')} appears more than once")
        else:
            headers[name] += b", " + value
    return headers


# A name or an IPv4 address, or an IPv6 address in brackets; then a port. Nothing that could end or extend a URL.
HOST = re.compile(rb"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
SCHEMES = frozenset([b"http", b"https"])


def request_origin(scope: Scope, headers: Headers) -> str:
    """Return the scheme and host that the client has used; behind proxies, those of the outermost one.

    They end up in URLs that others follow, so anything but a plain scheme or host is ignored.
    """
    scheme = _outermost(headers, b"x-forwarded-proto").lower()
    host = _outermost(headers, b"x-forwarded-host")
    if scheme not in SCHEMES:
        scheme = b"https" if scope.get("scheme") == "https" else b"http"
    if not HOST.fullmatch(host):
        host = headers.get(b"host", b"")
    return f"{scheme.decode()}://{host.decode() if HOST.fullmatch(host) else 'localhost'}"


def _outermost(headers: Headers, name: bytes) -> bytes:
    """Return the first of the values in a header to which each proxy appends one."""
    return headers.get(name, b"").partition(b",")[0].strip()


def text_header(headers: Headers, name: bytes, bytes_max: int) -> str | None:
    """Return a header as text; None if it is absent."""
    value = headers.get(name)
    if value is None:
        return None
    if len(value) > bytes_max:
        raise BadHeader(f"the header {name.decode()} is longer than {bytes_max} bytes")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise BadHeader(f"the header {name.decode()} is not UTF-8") from None


def is_true(headers: Headers, name: bytes) -> bool:
    """Return whether a header is `true`, in any case; any other value counts as absent (protocol 4.1)."""
    return headers.get(name, b"").lower() == b"true"


def parse_query(scope: Scope) -> list[tuple[str, str]]:
    """Return the query parameters in order, percent-decoded."""
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    if len(raw) > limits.QUERY_BYTES_MAX:
        raise BadQuery(f"the query is longer than {limits.QUERY_BYTES_MAX} bytes")
    return list(_split_known_query(raw)) if len(raw) <= QUERY_REMEMBERED_BYTES else _split_query(raw)


def _split_query(raw: bytes) -> list[tuple[str, str]]:
    return parse_qsl(raw.decode("latin-1"), keep_blank_values=True)


# Live readers send the same queries at the same time. Only short ones are cached, so that nobody can fill the memory
# with them.
QUERY_REMEMBERED_BYTES: Final = 128
_split_known_query = lru_cache(maxsize=1024)(_split_query)


SINGLE_PARAMETERS: Final = frozenset(["offset", "live", "cursor", "tail", "prefix", "after", "limit", "search", "time"])


def read_query(scope: Scope) -> dict[str, str]:
    """Return the query parameters by name. Raises `BadQuery` if one that the server uses is repeated."""
    query: dict[str, str] = {}
    for name, value in parse_query(scope):
        if name in query and name in SINGLE_PARAMETERS:
            raise BadQuery(f"the query parameter {name} appears more than once")
        query[name] = value
    return query


def parse_count(text: str, name: str, most: int) -> int:
    """Return the value of a query parameter that is a count, from 1 to `most`."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise BadQuery(f"{name} must be a whole number from 1 to {most}")
    return int(text)


def decode_json(body: bytes, type_: type[T], error: type[MainstemError] = BadRequest) -> T:
    """Decode a JSON body as a value of this type. Raises `error` for anything else."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as reason:
        raise error(explain_json_error(reason)) from None


async def read_body(headers: Headers, receive: Receive, bytes_max: int) -> bytes:
    """Return the whole body. Raises `BodyTooLarge` before it exceeds the limit."""
    declared = headers.get(b"content-length")
    if declared is not None and int(declared) > bytes_max:
        if b"expect" not in headers:  # otherwise the client waits for 100 Continue before it sends its body
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
            raise BodyCutShort("the client disconnected before its body was complete")
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
    """Read and drop the rest of a body, up to a limit: many clients read the reply only after sending all of it."""
    left = limits.BODY_DISCARD_BYTES_MAX
    while left > 0 and message["type"] == "http.request" and message.get("more_body", False):
        left -= len(message.get("body", b""))
        message = await receive()


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {bytes_max} bytes", limit_bytes=bytes_max)
