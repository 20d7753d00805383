"""A cheap implementation of HTTP/1.1 for the load generator: requests are built once, replies are barely parsed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, cast

HOST = "127.0.0.1"
STREAM_ROOT = "/v1/stream/"
HEAD_END = b"\r\n\r\n"
HEAD_BYTES_MAX = 64 * 1024
CONNECTING_MAX = 64


class UnexpectedReply(Exception):
    """The server sent a reply that makes the measurement meaningless."""


def build_request(
    method: str, stream: str, *, query: str = "", headers: Mapping[str, str] | None = None, body: bytes = b""
) -> bytes:
    lines = [f"{method} {STREAM_ROOT}{stream}{query} HTTP/1.1", f"Host: {HOST}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + HEAD_END + body


def find_header(head: bytes, name: str) -> str | None:
    found = re.search(rb"\r\n" + name.encode() + rb":[ \t]*([^\r]*)", head, re.IGNORECASE)
    return found[1].decode().rstrip() if found else None


def require_header(head: bytes, name: str) -> str:
    value = find_header(head, name)
    if value is None:
        raise UnexpectedReply(f"the reply has no {name}: {head!r}")
    return value


def measure_body(head: bytes) -> int | None:
    """Return the length of the body after this head; None if it is chunked."""
    if head[9:12] == b"204":
        return 0
    lowered = head.lower()
    start = lowered.find(b"\r\ncontent-length:")
    if start >= 0:
        end = lowered.find(b"\r", start + 17)
        return int(lowered[start + 17 : end if end >= 0 else None])
    if b"\r\ntransfer-encoding: chunked" in lowered:
        return None
    raise UnexpectedReply(f"the reply has no length: {head!r}")


def join_chunks(data: bytes, start: int) -> tuple[bytes, int] | None:
    """Return the chunked body at `start`, and where it ends; None while its last chunk is missing."""
    parts: list[bytes] = []
    while True:
        line_end = data.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(data[start:line_end].partition(b";")[0], 16)
        start = line_end + 2 + size + 2
        if len(data) < start:
            return None
        if size == 0:
            return b"".join(parts), start
        parts.append(data[start - 2 - size : start - 2])


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request in flight. A subclass handles each complete reply.

    All connections of a job share one `outcome`: the first failure of any of them ends the job.
    """

    transport: asyncio.Transport

    def __init__(self, outcome: asyncio.Future[None]) -> None:
        self.outcome = outcome
        self.closing = False
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closing:
            self.fail(exc or UnexpectedReply("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        try:
            self._take(self._pending + data if self._pending else data)
        except (UnexpectedReply, ValueError) as error:
            self.fail(error)

    def _take(self, data: bytes) -> None:
        self._pending = data
        head_end = data.find(HEAD_END)
        if head_end < 0:
            return
        head = data[:head_end]
        start = head_end + len(HEAD_END)
        length = measure_body(head)
        if length is None:
            joined = join_chunks(data, start)
            if joined is None:
                return
            body, end = joined
        else:
            end = start + length
            if len(data) < end:
                return
            body = data[start:end]
        if len(data) > end:
            raise UnexpectedReply(f"bytes after the reply: {data[end : end + 200]!r}")
        self._pending = b""
        self.handle_reply(head, body)

    def handle_reply(self, head: bytes, body: bytes) -> None:
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def close(self) -> None:
        self.closing = True
        self.transport.close()


def check_status(head: bytes, body: bytes, expected: bytes) -> None:
    if head[9:12] != expected:
        raise UnexpectedReply(f"expected {expected.decode()}, but got {head!r} {body[:200]!r}")


P = TypeVar("P", bound=asyncio.Protocol)


async def connect_all(port: int, makers: Sequence[Callable[[], P]]) -> list[P]:
    """Open connections, a few dozen at a time, so that no server's accept queue overflows."""
    loop = asyncio.get_running_loop()
    opened: list[P] = []
    for start in range(0, len(makers), CONNECTING_MAX):
        batch: list[Awaitable[tuple[asyncio.Transport, P]]] = [
            loop.create_connection(make, HOST, port) for make in makers[start : start + CONNECTING_MAX]
        ]
        opened += [protocol for _, protocol in await asyncio.gather(*batch)]
    return opened
