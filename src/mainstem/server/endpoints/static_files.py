"""Files of the package that the server serves from memory, compressed and with an ETag."""

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from mainstem.errors import NotFound
from mainstem.http.asgi import HeaderList, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding
from mainstem.http.requests import collect_headers
from mainstem.http.responses import method_not_allowed, respond, respond_head
from mainstem.long_work import run_long
from mainstem.streams.rules.etags import matches

MEDIA_TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
}


class File(NamedTuple):
    media_type: bytes
    etag: str
    body: bytes


def make_file(name: str, body: bytes) -> File:
    return File(MEDIA_TYPES[name.rpartition(".")[2]], f'"{hashlib.sha256(body).hexdigest()[:32]}"', body)


def load_files(directory: Traversable) -> dict[str, File]:
    """Return every file below a directory that has a known media type, by its path."""
    return {name: make_file(name, source.read_bytes()) for name, source in _walk(directory, "")}


def _walk(directory: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{above}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            yield above + entry.name, entry


def require_read(scope: Scope) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise method_not_allowed(scope["method"], "GET, HEAD")


class StaticFiles:
    def __init__(self, files: Mapping[str, File], missing: str) -> None:
        """`missing` says what a request for another file gets to read."""
        self._files = files
        self._missing = missing
        self._encoded: dict[tuple[str, str], bytes] = {}

    async def respond(self, name: str, scope: Scope, send: Send, headers: HeaderList) -> None:
        file = self._files.get(name)
        if file is None:
            raise NotFound(self._missing)
        request = collect_headers(scope["headers"])
        reply = [*headers, (b"etag", file.etag.encode()), (b"vary", b"accept-encoding")]
        if matches(request.get(b"if-none-match", b"").decode("latin-1"), file.etag):
            await respond(send, 304, reply)
            return
        reply.append((b"content-type", file.media_type))
        if scope["method"] == "HEAD":
            await respond_head(send, reply)
            return
        body = file.body
        encoding = choose_encoding(request.get(b"accept-encoding", b"").decode("latin-1"), len(body))
        if encoding is not None:
            reply.append((b"content-encoding", encoding.encode()))
            body = await self._encode(name, encoding, body)
        await respond(send, 200, reply, body)

    async def _encode(self, name: str, encoding: str, body: bytes) -> bytes:
        """Return a compressed file. Each is compressed once per encoding, of which there are four."""
        key = name, encoding
        if key not in self._encoded:
            self._encoded[key] = await run_long(ENCODERS[encoding], body)
        return self._encoded[key]
