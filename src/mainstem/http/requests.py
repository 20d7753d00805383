"""A request's headers, query and body as typed values. Whatever is malformed or repeated is refused here."""

import re
from collections.abc import Iterable, MutableMapping
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
    """The headers of a request by name. Raises `RepeatedHeader` for a second one of those that come once."""
    headers: Headers = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif name in SINGLE_HEADERS:
            raise RepeatedHeader(f"{name.decode('latin-1')} was sent more than once")
        else:
            headers[name] += b", " + value
    return headers


# A name or an IPv4 address, or an IPv6 address in brackets; then a port. Nothing that could end or extend a URL.
HOST = re.compile(rb"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
SCHEMES = frozenset([b"http", b"https"])


def request_origin(scope: Scope, headers: Headers) -> str:
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


def parse_query(scope: Scope) -> list[tuple[str, str]]:
    """The query parameters in order, percent-decoded."""
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    if len(raw) > limits.QUERY_BYTES_MAX:
        raise BadQuery(f"the query is longer than {limits.QUERY_BYTES_MAX} bytes")
    return parse_qsl(raw.decode("latin-1"), keep_blank_values=True)


SINGLE_PARAMETERS: Final = frozenset(["offset", "live", "cursor", "tail", "prefix", "after", "limit"])


def read_query(scope: Scope) -> dict[str, str]:
    """The query parameters by name. Raises `BadQuery` for a second one of those with a meaning."""
    query: dict[str, str] = {}
    for name, value in parse_query(scope):
        if name in query and name in SINGLE_PARAMETERS:
            raise BadQuery(f"{name} was given more than once")
        query[name] = value
    return query


def parse_count(text: str, name: str, most: int) -> int:
    """The value of a query parameter that counts something."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise BadQuery(f"{name} is a whole number from 1 to {most}")
    return int(text)


def decode_json(body: bytes, type_: type[T], error: type[MainstemError] = BadRequest) -> T:
    """A JSON body as a value of this type; anything else raises `error`."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as reason:
        raise error(explain_json_error(reason)) from None


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
