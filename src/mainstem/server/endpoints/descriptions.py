"""`/openapi.json` and `/asyncapi.json`: descriptions of the API for tools and for people, public and cacheable."""

import asyncio
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding
from mainstem.http.requests import collect_headers
from mainstem.http.responses import CORS_HEADERS, JSON_CONTENT, method_not_allowed, respond, respond_head
from mainstem.streams.rules.etags import matches

CACHE_CONTROL: Final = (b"cache-control", b"public, max-age=60")
BuildDocument = Callable[[str], dict[str, Any]]
"""Makes a document for a server that is mounted at this path."""


class Document(NamedTuple):
    etag: str
    body: bytes


class Descriptions:
    """Serves the documents. Each is built when it is first asked for, and remembered."""

    def __init__(self, build_openapi: BuildDocument, build_asyncapi: BuildDocument) -> None:
        # An app that is mounted at a path with parameters has many roots, which clients choose.
        remember = lru_cache(maxsize=limits.DESCRIPTIONS_KEPT_MAX)
        self._openapi = remember(lambda root: _encode(build_openapi(root)))
        self._asyncapi = remember(lambda root: _encode(build_asyncapi(root)))
        self._compress = remember(_compress)

    async def openapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(self._openapi, scope, send)

    async def asyncapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(self._asyncapi, scope, send)

    async def _respond(self, find: Callable[[str], Document], scope: Scope, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed(scope["method"], "GET, HEAD")
        headers = collect_headers(scope["headers"])
        document = await asyncio.to_thread(find, scope.get("root_path", ""))  # building it takes some 100 ms
        reply = [
            *CORS_HEADERS,
            (b"etag", document.etag.encode()),
            CACHE_CONTROL,
            (b"vary", b"accept-encoding"),
        ]
        if matches(headers.get(b"if-none-match", b"").decode("latin-1"), document.etag):
            await respond(send, 304, reply)
            return
        if scope["method"] == "HEAD":
            await respond_head(send, [*reply, JSON_CONTENT])
            return
        body = document.body
        encoding = choose_encoding(headers.get(b"accept-encoding", b"").decode("latin-1"), len(body))
        if encoding is not None:
            body = await asyncio.to_thread(self._compress, encoding, body)
            reply.append((b"content-encoding", encoding.encode()))
        await respond(send, 200, [*reply, JSON_CONTENT], body)


def _encode(document: dict[str, Any]) -> Document:
    body = msgspec.json.encode(document)
    return Document(f'"{hashlib.sha256(body).hexdigest()[:32]}"', body)


def _compress(encoding: str, body: bytes) -> bytes:
    return ENCODERS[encoding](body)
