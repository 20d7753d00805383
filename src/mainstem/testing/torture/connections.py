"""Plain HTTP for recording clients: one request at a time and no retries, so an outcome is known, or it is not."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httptools
import msgspec

from mainstem.streams.rules.offsets import Offset

ANSWER_S_MAX = 4.0
"""How long a client waits for a reply: longer than a server is stopped, but not as long as a node may need to find out
whether its database has stored something."""


class Unanswered(Exception):
    """The connection failed, the reply did not come in time, or it says that the outcome is not known."""


class Problem(msgspec.Struct):
    code: str = ""


class Reply:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    @property
    def refusal(self) -> str | None:
        """The code of the error. Raises `Unanswered` if the request may have taken effect all the same."""
        if self.status >= 500:
            raise Unanswered(f"{self.status} {self.body[:200]!r}")
        if self.status < 400:
            return None
        if not self.body:  # a reply to HEAD
            return "stream_not_found" if self.status == 404 else str(self.status)
        return msgspec.json.decode(self.body, type=Problem).code

    @property
    def next_offset(self) -> Offset | None:
        text = self.headers.get("stream-next-offset")
        return None if text is None else Offset.parse(text)

    def says(self, name: str) -> bool:
        return self.headers.get(name) == "true"


class Connection:
    """One connection to one server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: tuple[str, int]) -> "Connection":
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return cls(*await asyncio.open_connection(*address))
        except (OSError, TimeoutError) as error:
            raise Unanswered(f"cannot connect: {error}") from None

    def close(self) -> None:
        self._writer.transport.abort()

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Send a request, and return the whole reply."""
        async with _failing_as_unanswered():
            parser = self._send(method, target, headers, body)
            while not parser.complete:
                await self._receive(parser)
                if method == "HEAD" and parser.has_head:
                    break
            return parser.reply

    async def stream(self, target: str) -> AsyncIterator[Reply]:
        """Send a GET, and yield the reply once it begins, and then again with each piece of its body."""
        async with _failing_as_unanswered():
            parser = self._send("GET", target, None, b"")
            while not parser.has_head or (parser.reply.status >= 400 and not parser.complete):
                await self._receive(parser)
        yield parser.reply
        while not parser.complete:
            parser.reply.body = b""
            async with _failing_as_unanswered():
                await self._receive(parser)
            yield parser.reply

    def _send(self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes) -> "_Parser":
        if self._writer.is_closing():
            raise Unanswered("the connection was closed")
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return _Parser()

    async def _receive(self, parser: "_Parser") -> None:
        data = await self._reader.read(65_536)
        if not data:
            raise Unanswered("the connection was closed")
        try:
            parser.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(f"the server sent malformed HTTP: {data[:200]!r}") from error


class _Parser:
    """Receives the callbacks of the parser of one reply."""

    def __init__(self) -> None:
        self.reply = Reply()
        self.has_head = self.complete = False
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.reply.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.reply.status = self.parser.get_status_code()
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self.reply.body += body

    def on_message_complete(self) -> None:
        self.complete = True


@asynccontextmanager
async def _failing_as_unanswered() -> AsyncIterator[None]:
    """Turn the failure of a connection, and a reply that takes too long, into `Unanswered`."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            yield
    except (OSError, TimeoutError) as error:
        raise Unanswered(f"no answer: {error!r}") from None
