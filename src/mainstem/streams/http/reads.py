"""GET of a stream or a partition: catch-up, long-poll and SSE, which share offsets, cursors and ETags."""

import asyncio
from typing import NamedTuple, Protocol

from mainstem import limits
from mainstem.http.asgi import HeaderList, Headers, Receive, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding
from mainstem.http.responses import CORS_HEADERS, NO_STORE, respond
from mainstem.log.commit import CommitLog
from mainstem.streams.jitter import draw_cursor_jitter_s
from mainstem.streams.reading.live import LiveReads
from mainstem.streams.reading.reader import Page
from mainstem.streams.reading.sources import LiveSource
from mainstem.streams.rules import content_types, json_mode
from mainstem.streams.rules.cursors import next_cursor
from mainstem.streams.rules.etags import make_etag, matches
from mainstem.streams.rules.offsets import Offset


class ReadSource(LiveSource, Protocol):
    @property
    def name(self) -> str:
        """The name of the source in ETags."""


class ReadRequest(NamedTuple):
    """A GET request with its resolved offset."""

    live: str | None
    """`long-poll` or `sse`; None for catch-up."""
    start: Offset
    cursor: str | None
    headers: Headers


class Reads:
    """Responds to reads of one kind of source.

    `page_headers` are sent with every page, and with a 304 in its place; `cache_control` is the default Cache-Control.
    """

    def __init__(
        self,
        log: CommitLog,
        *,
        long_poll_ms: int,
        page_bytes: int,
        page_headers: HeaderList,
        cache_control: bytes,
        compresses: bool,
    ) -> None:
        self.log = log
        self.live = LiveReads(log, long_poll_ms / 1000)
        self.page_bytes = page_bytes
        self.page_headers = page_headers
        self.cache_control = cache_control
        self.compresses = compresses

    async def respond(
        self,
        source: ReadSource,
        request: ReadRequest,
        content: HeaderList,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        with_etag: bool = True,
    ) -> None:
        """Respond with a page, with a page after a wait, or with events, depending on `request.live`. `content` is the
        list of headers that describe the body of a page."""
        if request.live == "sse":
            await self.live.stream_events(source, request.start, request.cursor, scope, receive, send)
            return
        extra: HeaderList = []
        if request.live == "long-poll":
            tail = await self.live.wait(source, request.start, scope, receive)
            if tail is None:
                return
            if tail[0] <= request.start:
                about = self.describe_tail(request.start, tail[1], request.cursor)
                await respond(send, 204, [*CORS_HEADERS, *about, NO_STORE])
                return
            extra = [(b"stream-cursor", self._next_cursor(request.cursor))]
        page = await source.read(request.start, self.page_bytes)
        await self.send_page(source, page, content, request.headers, send, extra=extra, with_etag=with_etag)

    async def send_page(
        self,
        source: ReadSource,
        page: Page,
        content: HeaderList,
        headers: Headers,
        send: Send,
        *,
        extra: HeaderList | None = None,
        cache_control: bytes | None = None,
        with_etag: bool = True,
    ) -> None:
        """Respond with the page, or with 304 if the client already has it."""
        etag = make_etag(source.name, page.start, page.end, page.closed)
        reply = [*(extra or ()), *self.page_headers]
        if with_etag:
            reply.append((b"etag", etag.encode()))
        reply.append((b"cache-control", cache_control or self.cache_control))
        if self.compresses:
            reply.append((b"vary", b"accept-encoding"))
        reply.append((b"stream-next-offset", str(page.end).encode()))
        if page.up_to_date:
            reply.append((b"stream-up-to-date", b"true"))
        if page.closed:
            reply.append((b"stream-closed", b"true"))
        if b"if-none-match" in headers and matches(headers[b"if-none-match"].decode("latin-1"), etag):
            await respond(send, 304, reply)
            return
        body = page.data
        if content_types.is_json(source.content_type):
            inline = len(body) <= limits.ENCODE_INLINE_BYTES_MAX
            body = json_mode.wrap(body) if inline else await asyncio.to_thread(json_mode.wrap, body)
        reply += content
        if self.compresses:
            encoding = choose_encoding(headers.get(b"accept-encoding", b"").decode("latin-1"), len(body))
            if encoding is not None:
                encode = ENCODERS[encoding]
                inline = len(body) <= limits.COMPRESS_INLINE_BYTES_MAX
                body = encode(body) if inline else await asyncio.to_thread(encode, body)
                reply.append((b"content-encoding", encoding.encode()))
        await respond(send, 200, reply, body)

    def describe_tail(self, offset: Offset, closed: bool, cursor: str | None) -> HeaderList:
        """Return the response headers for a reader that is up to date."""
        return [
            (b"stream-next-offset", str(offset).encode()),
            (b"stream-up-to-date", b"true"),
            (b"stream-closed", b"true") if closed else (b"stream-cursor", self._next_cursor(cursor)),
        ]

    def _next_cursor(self, client: str | None) -> bytes:
        return next_cursor(client, self.log.clock_us(), draw_cursor_jitter_s()).encode()
