"""Responses: the headers that every reply carries, problem documents, and sending them."""

from typing import Any, Final

import msgspec

from mainstem.errors import MainstemError, MethodNotAllowed, problem
from mainstem.http.asgi import HeaderList, Headers, Scope, Send
from mainstem.http.headers import CORS_REQUEST_HEADERS, Api, list_exposed

Response = tuple[int, HeaderList, bytes]
"""A status, headers without Content-Length, and a body."""

ALLOWED_METHODS = b"GET, HEAD, POST, PUT, DELETE, OPTIONS"
JSON_CONTENT: Final = (b"content-type", b"application/json")
NO_STORE: Final = (b"cache-control", b"no-store")

# Protocol 12.7: no sniffing, and readable from other origins.
SECURITY_HEADERS: HeaderList = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]
CORS_HEADERS: HeaderList = [
    *SECURITY_HEADERS,
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", list_exposed(Api.STREAMS)),
    (b"content-security-policy", b"sandbox"),  # scripts in stored data must not run with this server's origin
]
JSON_HEADERS: HeaderList = [*CORS_HEADERS, JSON_CONTENT, NO_STORE]
PREFLIGHT_HEADERS: HeaderList = [
    *CORS_HEADERS,
    (b"access-control-allow-methods", ALLOWED_METHODS),
    (b"access-control-allow-headers", CORS_REQUEST_HEADERS),
    (b"access-control-max-age", b"86400"),
    (b"allow", ALLOWED_METHODS),
]


def base_headers(headers: Headers) -> HeaderList:
    """Return the headers of a reply that no cache stores; only browsers on another origin need the CORS headers."""
    return CORS_HEADERS if b"origin" in headers else SECURITY_HEADERS


def make_private(headers: HeaderList, vary: bytes = b"authorization") -> HeaderList:
    """Return the headers changed so that no shared cache stores the reply; `vary` names what decides who gets it."""
    directives = next((value for name, value in headers if name == b"cache-control"), b"no-store")
    if b"no-store" in directives:
        return headers
    private = b"private, " + directives.removeprefix(b"private, ").removeprefix(b"public, ")
    kept = [header for header in headers if header[0] != b"cache-control"]
    return add_vary([*kept, (b"cache-control", private)], vary)


def add_vary(headers: HeaderList, names: bytes) -> HeaderList:
    """Return the headers with further names in Vary."""
    vary = b", ".join([*(value for name, value in headers if name == b"vary"), names])
    return [*(header for header in headers if header[0] != b"vary"), (b"vary", vary)]


def encode_headers(headers: HeaderList) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


async def respond_json(send: Send, body: Any, status: int = 200, headers: HeaderList = JSON_HEADERS) -> None:
    """Send a JSON body. `headers` are all headers except Content-Length."""
    await respond(send, status, headers, msgspec.json.encode(body))


async def respond_head(send: Send, headers: HeaderList) -> None:
    """Reply to a HEAD request without Content-Length."""
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def respond(send: Send, status: int, headers: HeaderList, body: bytes | bytearray | memoryview = b"") -> None:
    if status not in (204, 304):
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def method_not_allowed(method: str, allow: str) -> MethodNotAllowed:
    return MethodNotAllowed(f"{method} is not supported here; use one of: {allow}", headers={"Allow": allow})


def problem_headers(error: MainstemError) -> HeaderList:
    return [
        *CORS_HEADERS,
        (b"content-type", b"application/problem+json"),
        NO_STORE,
        *((name.lower().encode(), value.encode()) for name, value in error.headers.items()),
    ]


def problem_response(error: MainstemError, request_id: str = "") -> Response:
    return error.status, problem_headers(error), msgspec.json.encode(problem(error, request_id))


async def respond_problem(scope: Scope, send: Send, error: MainstemError) -> None:
    """Reply with a problem document, without a body if the request is a HEAD."""
    status, headers, body = problem_response(error, scope.get("mainstem.request_id", ""))
    if status == 413:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if scope.get("method") == "HEAD":
        body = b""
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers, "mainstem.code": error.code})
    await send({"type": "http.response.body", "body": body})
