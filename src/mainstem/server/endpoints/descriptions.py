"""`/openapi.json` and `/asyncapi.json`: descriptions of the API for tools and for people, public and cacheable."""

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding
from mainstem.http.requests import collect_headers
from mainstem.http.responses import CORS_HEADERS, JSON_CONTENT, method_not_allowed, respond, respond_head
from mainstem.long_work import run_long
from mainstem.streams.rules.etags import matches

CACHE_CONTROL: Final = (b"cache-control", b"public, max-age=60")
BuildDocument = Callable[[str], dict[str, Any]]
"""Makes a document for a server that is mounted at this path."""


class Document(NamedTuple):
    etag: str
    body: bytes


class Key(NamedTuple):
    name: str
    root: str
    encoding: str | None = None


class Descriptions:
    """Serves the documents. Each is built on first use and kept, plain and in each encoding that clients asked for."""

    def __init__(self, build_openapi: BuildDocument, build_asyncapi: BuildDocument) -> None:
        self._builders = {"openapi": build_openapi, "asyncapi": build_asyncapi}
        self._kept: dict[Key, Document] = {}

    async def openapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond("openapi", scope, send)

    async def asyncapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond("asyncapi", scope, send)

    async def _respond(self, name: str, scope: Scope, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed(scope["method"], "GET, HEAD")
        headers = collect_headers(scope["headers"])
        key = Key(name, scope.get("root_path", ""))
        document = await self._find(key)
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
        encoding = choose_encoding(headers.get(b"accept-encoding", b"").decode("latin-1"), len(document.body))
        if encoding is not None:
            document = await self._find(key._replace(encoding=encoding))
            reply.append((b"content-encoding", encoding.encode()))
        await respond(send, 200, [*reply, JSON_CONTENT], document.body)

    async def _find(self, key: Key) -> Document:
        found = self._kept.get(key)
        if found is None:
            found = await run_long(self._make, key)  # building one takes some 100 ms
        return found

    def _make(self, key: Key) -> Document:
        """Build a document, unless an earlier call has done so; calls run one at a time."""
        if key in self._kept:
            return self._kept[key]
        if key.encoding is None:
            made = _encode(self._builders[key.name](key.root))
        else:
            plain = self._make(key._replace(encoding=None))
            made = plain._replace(body=ENCODERS[key.encoding](plain.body))
        # If the app is mounted at a path with parameters, clients choose the root.
        if len(self._kept) >= limits.DESCRIPTIONS_KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = made
        return made


def _encode(document: dict[str, Any]) -> Document:
    body = msgspec.json.encode(document)
    return Document(f'"{hashlib.sha256(body).hexdigest()[:32]}"', body)
