"""GET of a stream or a partition: catch-up, long-poll and SSE, which share offsets, cursors and ETags."""

import asyncio
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, cast

from mainstem import limits
from mainstem.http.asgi import HeaderList, Headers, Receive, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding, prefer_encoding
from mainstem.http.responses import CORS_HEADERS, NO_STORE, Response, respond
from mainstem.log.commit import CommitLog
from mainstem.streams.jitter import draw_cursor_jitter_s
from mainstem.streams.reading.live import LiveReads
from mainstem.streams.reading.page_cache import CachedPage, PageHeaders
from mainstem.streams.reading.reader import Page
from mainstem.streams.reading.sources import LiveSource, Tail
from mainstem.streams.rules import content_types, json_mode
from mainstem.streams.rules.cursors import is_ahead, next_cursor
from mainstem.streams.rules.etags import make_etag, matches
from mainstem.streams.rules.offsets import Offset
from mainstem.traces import read_traced


class ReadSource(LiveSource, Protocol):
    @property
    def name(self) -> str:
        """The name of the source in ETags."""

    def find_page(self, start: Offset, accepts: str | None) -> CachedPage | None:
        """Return the page from an offset for clients that accept an encoding, if it is in memory."""

    def keep_page(self, start: Offset, accepts: str | None, page: CachedPage) -> None:
        """Keep a page in memory for other readers."""


class ReadRequest(NamedTuple):
    """A GET request with its resolved offset."""

    live: str | None
    """`long-poll` or `sse`; None for catch-up."""
    start: Offset
    cursor: str | None
    headers: Headers
    extra: HeaderList
    """Further headers of a catch-up reply, which depend on how the client has named the offset."""


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
        if request.live is None:
            await respond(send, *await self._make_page(source, request, content, request.extra, with_etag))
            return

        async def make_response(source: LiveSource, tail: Tail) -> Response:
            return await self._make_poll(cast("ReadSource", source), request, content, tail, with_etag)

        like = (self._distinguish(request), with_etag)
        tail = await self.live.wait(source, request.start, like, make_response, scope, receive)
        if tail is not None:
            await respond(send, *await self._make_poll(source, request, content, tail, with_etag))

    def _distinguish(self, request: ReadRequest) -> tuple[Hashable, ...]:
        """Return what makes a difference to the response to a long-poll, besides the offset."""
        headers, cursor = request.headers, request.cursor
        ahead = cursor if is_ahead(cursor, self.log.clock_us()) else None
        return self._accepted_encoding(headers), headers.get(b"if-none-match"), ahead

    async def _make_poll(
        self, source: ReadSource, request: ReadRequest, content: HeaderList, tail: Tail, with_etag: bool
    ) -> Response:
        """Return the response to a long-poll for the end that the source has now."""
        if tail[0] <= request.start:
            about = self.describe_tail(request.start, tail[1], request.cursor)
            return 204, [*CORS_HEADERS, *about, NO_STORE], b""
        extra = [(b"stream-cursor", self._next_cursor(request.cursor))]
        return await self._make_page(source, request, content, extra, with_etag)

    async def _make_page(
        self, source: ReadSource, request: ReadRequest, content: HeaderList, extra: HeaderList, with_etag: bool
    ) -> Response:
        """Return the response with the page from an offset."""
        start, headers = request.start, request.headers
        response = self.find_page(source, start, content, headers, extra)
        if response is not None:
            return response
        page = await read_traced(source.read(start, self.page_bytes), measure_page)
        cached = await self._encode(page, source.content_type, headers)
        response = self.find_page(source, start, content, headers, extra)
        if response is not None:
            return response  # another reader was quicker: replies that share a body take its memory only once
        source.keep_page(start, self._accepted_encoding(headers), cached)
        cached.headers[page.up_to_date, page.closed] = about = self._describe_page(
            source.name, page, cached, content, with_etag=with_etag
        )
        return _respond_with_page(cached, about, headers, extra)

    def find_page(
        self, source: ReadSource, start: Offset, content: HeaderList, headers: Headers, extra: HeaderList
    ) -> Response | None:
        """Return the response with the page from an offset if that is in memory, or else None."""
        cached = source.find_page(start, self._accepted_encoding(headers))
        if cached is None:
            return None
        tail, closed = source.tail
        up_to_date = cached.end == tail.position
        closed = closed and up_to_date
        about = cached.headers.get((up_to_date, closed))
        if about is None:
            page = Page(start, Offset(start.read_seq, cached.end), b"", up_to_date, closed)
            about = cached.headers[up_to_date, closed] = self._describe_page(source.name, page, cached, content)
        return _respond_with_page(cached, about, headers, extra)

    async def make_uncached_page(
        self, source: ReadSource, page: Page, content: HeaderList, headers: Headers, cache_control: bytes
    ) -> Response:
        """Return the response with a page that is not read from an offset."""
        encoded = await self._encode(page, source.content_type, headers)
        about = self._describe_page(source.name, page, encoded, content, cache_control=cache_control)
        return _respond_with_page(encoded, about, headers, [])

    def _accepted_encoding(self, headers: Headers) -> str | None:
        return prefer_encoding(headers.get(b"accept-encoding", b"").decode("latin-1")) if self.compresses else None

    async def _encode(self, page: Page, content_type: str, headers: Headers) -> CachedPage:
        """Return a page as the body of a reply; large bodies are made in a thread."""
        body = page.data
        if content_types.is_json(content_type):
            body = await _encode_sized(json_mode.wrap, body, limits.ENCODE_INLINE_BYTES_MAX)
        encoding = None
        if self.compresses:
            encoding = choose_encoding(headers.get(b"accept-encoding", b"").decode("latin-1"), len(body))
            if encoding is not None:
                body = await _encode_sized(ENCODERS[encoding], body, limits.COMPRESS_INLINE_BYTES_MAX)
        return CachedPage(page.end.position, not page.up_to_date, body, encoding)

    def _describe_page(
        self,
        name: str,
        page: Page,
        encoded: CachedPage,
        content: HeaderList,
        *,
        cache_control: bytes | None = None,
        with_etag: bool = True,
    ) -> PageHeaders:
        etag = make_etag(name, page.start, page.end, page.closed)
        reply = [*self.page_headers]
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
        encoding = [] if encoded.encoding is None else [(b"content-encoding", encoded.encoding.encode())]
        return PageHeaders(etag, reply, [*reply, *content, *encoding])

    def describe_tail(self, offset: Offset, closed: bool, cursor: str | None) -> HeaderList:
        """Return the response headers for a reader that is up to date."""
        return [
            (b"stream-next-offset", str(offset).encode()),
            (b"stream-up-to-date", b"true"),
            (b"stream-closed", b"true") if closed else (b"stream-cursor", self._next_cursor(cursor)),
        ]

    def _next_cursor(self, client: str | None) -> bytes:
        return next_cursor(client, self.log.clock_us(), draw_cursor_jitter_s(self.log.random)).encode()


def measure_page(page: Page) -> int:
    return len(page.data)


def _respond_with_page(page: CachedPage, about: PageHeaders, headers: Headers, extra: HeaderList) -> Response:
    """Return the response with a page, or a 304 if the client already has it."""
    if b"if-none-match" in headers and matches(headers[b"if-none-match"].decode("latin-1"), about.etag):
        return 304, [*extra, *about.unchanged] if extra else about.unchanged, b""
    return 200, [*extra, *about.all] if extra else about.all, page.body


async def _encode_sized(encode: Callable[[bytes], bytes], data: bytes, inline_max: int) -> bytes:
    return encode(data) if len(data) <= inline_max else await asyncio.to_thread(encode, data)
