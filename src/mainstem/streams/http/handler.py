"""Requests in, responses out: the Durable Streams protocol as an ASGI handler, with no framework on the way."""

import asyncio
from urllib.parse import quote

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import (
    BadHeader,
    BadQuery,
    MainstemError,
    MethodNotAllowed,
)
from mainstem.http.asgi import HeaderList, Headers, Receive, Scope, Send
from mainstem.http.compression import ENCODERS, choose_encoding
from mainstem.http.requests import (
    collect_headers,
    is_true,
    parse_count,
    read_body,
    read_query,
    request_origin,
    text_header,
)
from mainstem.http.responses import (
    ALLOWED_METHODS,
    CORS_HEADERS,
    NO_STORE,
    PREFLIGHT_HEADERS,
    base_headers,
    respond,
    respond_head,
    respond_problem,
)
from mainstem.long_work import run_sized
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork, parse_sub_offset
from mainstem.streams.commands.trim import format_retention
from mainstem.streams.http.append import append_reply, parse_messages, parsed_size, prepare_append
from mainstem.streams.http.headers import parse_read, read_lifetime, read_retention
from mainstem.streams.jitter import draw_cursor_jitter_s
from mainstem.streams.reading.live import LiveReads
from mainstem.streams.reading.reader import Page, Streams, StreamSource
from mainstem.streams.rules import content_types, json_mode, paths
from mainstem.streams.rules.cursors import next_cursor
from mainstem.streams.rules.etags import make_etag, matches
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.rules.offsets import Sentinel, parse_offset
from mainstem.streams.states import StreamState
from mainstem.streams.subscriptions.http import ControlHttp

# Protocol 10.1. A page never changes, but more may follow it, so caches ask again after a minute.
CACHE = b"public, max-age=60, stale-while-revalidate=300"


class StreamsHttp:
    """The handler of everything under the stream prefix."""

    def __init__(
        self,
        streams: Streams,
        control: ControlHttp,
        mount: paths.Mount,
        *,
        body_bytes_max: int,
        long_poll_ms: int,
        allow_active_content: bool = False,
    ) -> None:
        self.streams = streams
        self.allow_active_content = allow_active_content
        self.control = control
        self.mount = mount
        self.body_bytes_max = body_bytes_max
        self.live = LiveReads(streams.log, long_poll_ms / 1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, raw_path: bytes) -> None:
        """`raw_path` is what follows the prefix, still percent-encoded."""
        method = scope["method"]
        try:
            if method == "OPTIONS":
                await respond(send, 204, PREFLIGHT_HEADERS)
                return
            headers = collect_headers(scope["headers"])
            path = paths.parse_path(raw_path)
            identity: Identity = scope["mainstem.identity"]
            if paths.is_reserved(path):
                await self.control(path.removeprefix(paths.RESERVED + "/"), headers, scope, receive, send)
            elif method == "POST":
                identity.require_write(path)
                await self._append(path, headers, receive, send)
            elif method == "GET":
                identity.require_read(path)
                await self._read(path, headers, scope, receive, send)
            elif method == "PUT":
                identity.require_write(path)
                await self._create(path, headers, scope, receive, send)
            elif method == "HEAD":
                identity.require_read(path)
                await self._head(path, headers, send)
            elif method == "DELETE":
                identity.require_write(path)
                await self.streams.log.submit(Delete(path, self.streams.touched_us(path)))
                await respond(send, 204, base_headers(headers))
            else:
                raise MethodNotAllowed(
                    f"{method} means nothing to a stream", headers={"Allow": ALLOWED_METHODS.decode()}
                )
        except MainstemError as error:
            await respond_problem(send, error, head=method == "HEAD")

    # Writing

    async def _append(self, path: str, headers: Headers, receive: Receive, send: Send) -> None:
        body = await read_body(headers, receive, self.body_bytes_max)
        content_type = headers.get(b"content-type", b"")[: limits.CONTENT_TYPE_BYTES_MAX].decode("latin-1")
        size = parsed_size(content_type, body)
        command = await run_sized(
            size, limits.PARSE_INLINE_BYTES_MAX, prepare_append, self.streams, path, headers, body
        )
        done = await self.streams.log.submit(command)
        self.streams.touch(path, done.state)  # an append that stored nothing, as a retry, is a use all the same
        await respond(send, *append_reply(headers, done))

    async def _create(self, path: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        content_type = text_header(headers, b"content-type", limits.CONTENT_TYPE_BYTES_MAX)
        if content_type:
            content_types.check_content_type(content_type)
        lifetime = read_lifetime(headers)
        source = text_header(headers, b"stream-forked-from", 3 * limits.STREAM_PATH_BYTES_MAX)
        if source is None and (b"stream-fork-offset" in headers or b"stream-fork-sub-offset" in headers):
            raise BadHeader("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        body = await read_body(headers, receive, self.body_bytes_max)
        if source is not None:
            created = await self._fork(path, source, content_type, lifetime, headers, body, scope)
        else:
            content_type = content_type or content_types.DEFAULT
            created = await self.streams.log.submit(
                Create(
                    path,
                    content_type,
                    await parse_first_messages(content_type, body),
                    is_true(headers, b"stream-closed"),
                    lifetime,
                    read_retention(headers),
                    self.streams.touched_us(path),
                )
            )
        reply = [*base_headers(headers), *describe(created.state)]
        if created.new:
            reply.append((b"location", location(scope, headers)))
        await respond(send, 201 if created.new else 200, reply)

    async def _fork(
        self,
        path: str,
        source: str,
        content_type: str | None,
        lifetime: Lifetime,
        headers: Headers,
        body: bytes,
        scope: Scope,
    ) -> Created:
        source_path = self.mount.parse_reference(source, scope.get("root_path", ""))
        identity: Identity = scope["mainstem.identity"]
        identity.require_read(source_path)
        anchor = text_header(headers, b"stream-fork-offset", 64)
        sub_offset = parse_sub_offset(text_header(headers, b"stream-fork-sub-offset", 64) or "0")
        if b"stream-fork-sub-offset" in headers and not headers[b"stream-fork-sub-offset"]:
            raise BadHeader("Stream-Fork-Sub-Offset is empty")
        if anchor is None and sub_offset:
            raise BadHeader("Stream-Fork-Sub-Offset needs Stream-Fork-Offset")
        if b"stream-retention" in headers:
            raise BadHeader("a fork keeps what it inherits: it takes no Stream-Retention")
        offset = None if anchor is None else parse_offset(anchor)
        fork = await self.streams.plan_fork(source_path, offset, sub_offset)
        body_type = content_type or fork.content_type
        return await self.streams.log.submit(
            Fork(
                path,
                source_path,
                content_type,
                fork.anchor,
                sub_offset,
                fork.resolved,
                await parse_first_messages(body_type, body),
                is_true(headers, b"stream-closed"),
                lifetime,
                self.streams.touched_us(path),
                self.streams.touched_us(source_path),
            )
        )

    # Reading

    async def _head(self, path: str, headers: Headers, send: Send) -> None:
        state = await self.streams.find(path)
        reply = [*CORS_HEADERS, *describe(state), NO_STORE]
        if state.ttl_s is not None:
            reply.append((b"stream-ttl", b"%d" % state.ttl_s))
        if state.expires_at_text is not None:
            reply.append((b"stream-expires-at", state.expires_at_text.encode()))
        if state.retention is not None:
            reply.append((b"stream-retention", format_retention(state.retention).encode()))
            reply.append((b"stream-earliest-offset", str(state.earliest_offset).encode()))
        await respond_head(send, reply)

    async def _read(self, path: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        query = read_query(scope)
        if "tail" in query:
            if query.get("live", "false") != "false" or "offset" in query:
                raise BadQuery("tail stands for an offset, and reads what is there")
            await self._read_tail(path, parse_count(query["tail"], "tail", limits.TAIL_MESSAGES_MAX), headers, send)
            return
        live, offset, cursor = parse_read(headers, scope)
        state = await self.streams.find(path)
        self.streams.touch(path, state)
        start = self.streams.resolve(state, offset)
        source = StreamSource(self.streams, path, state)
        if live == "sse":
            await self.live.stream_events(source, start, cursor, scope, receive, send)
            return
        reply: HeaderList = []
        if live == "long-poll":
            if await self.live.wait(source, start, scope, receive) is None:
                return
            state = source.state
            if start == state.next_offset:
                await respond(send, 204, [*CORS_HEADERS, *self._tail(state, cursor), (b"cache-control", b"no-store")])
                return
            reply.append((b"stream-cursor", self._cursor(cursor)))
        elif offset is Sentinel.NOW:
            reply += [*self._tail(state, None), (b"cache-control", b"no-store")]
            reply += self._content_headers(state)
            await respond(
                send, 200, [*CORS_HEADERS, *reply], b"[]" if content_types.is_json(state.content_type) else b""
            )
            return
        page = await self.streams.read(state, start)
        await self._send_page(path, state, page, reply, headers, send)

    async def _read_tail(self, path: str, count: int, headers: Headers, send: Send) -> None:
        """Beyond the protocol: the last messages of a stream, then as any other read."""
        state = await self.streams.find(path)
        self.streams.touch(path, state)
        page = await self.streams.read_tail(state, count)
        await self._send_page(path, state, page, [], headers, send, cache=b"no-store")

    async def _send_page(
        self,
        path: str,
        state: StreamState,
        page: Page,
        reply: HeaderList,
        headers: Headers,
        send: Send,
        *,
        cache: bytes = CACHE,
    ) -> None:
        etag = make_etag(path, page.start, page.end, page.closed)
        reply += [*CORS_HEADERS, (b"etag", etag.encode()), (b"cache-control", cache), (b"vary", b"accept-encoding")]
        reply.append((b"stream-next-offset", str(page.end).encode()))
        if page.up_to_date:
            reply.append((b"stream-up-to-date", b"true"))
        if page.closed:
            reply.append((b"stream-closed", b"true"))
        if b"if-none-match" in headers and matches(headers[b"if-none-match"].decode("latin-1"), etag):
            await respond(send, 304, reply)
            return
        body = page.data
        if content_types.is_json(state.content_type):
            inline = len(body) <= limits.ENCODE_INLINE_BYTES_MAX
            body = json_mode.wrap(body) if inline else await asyncio.to_thread(json_mode.wrap, body)
        reply += self._content_headers(state)
        encoding = choose_encoding(headers.get(b"accept-encoding", b"").decode("latin-1"), len(body))
        if encoding is not None:
            encode = ENCODERS[encoding]
            inline = len(body) <= limits.COMPRESS_INLINE_BYTES_MAX
            body = encode(body) if inline else await asyncio.to_thread(encode, body)
            reply.append((b"content-encoding", encoding.encode()))
        await respond(send, 200, reply, body)

    def _content_headers(self, state: StreamState) -> HeaderList:
        """What the content is. A browser downloads what could run scripts, instead of showing it."""
        content_type = (b"content-type", state.content_type.encode())
        if content_types.is_active(state.content_type) and not self.allow_active_content:
            return [content_type, (b"content-disposition", b"attachment")]
        return [content_type]

    def _tail(self, state: StreamState, cursor: str | None) -> HeaderList:
        """What says that a reader has everything."""
        tail: HeaderList = [
            (b"stream-next-offset", str(state.next_offset).encode()),
            (b"stream-up-to-date", b"true"),
        ]
        if state.closed:
            tail.append((b"stream-closed", b"true"))
        else:
            tail.append((b"stream-cursor", self._cursor(cursor)))
        return tail

    def _cursor(self, client: str | None) -> bytes:
        return next_cursor(client, self.streams.log.clock_us(), draw_cursor_jitter_s()).encode()


async def parse_first_messages(content_type: str, body: bytes) -> Messages:
    """What a new stream begins with, parsed off the event loop when that could take long."""
    if not body:
        return NOTHING
    size = parsed_size(content_type, body)
    return await run_sized(size, limits.PARSE_INLINE_BYTES_MAX, parse_messages, content_type, body, creating=True)


def describe(state: StreamState) -> HeaderList:
    about: HeaderList = [
        (b"content-type", state.content_type.encode()),
        (b"stream-next-offset", str(state.next_offset).encode()),
    ]
    if state.closed:
        about.append((b"stream-closed", b"true"))
    return about


def location(scope: Scope, headers: Headers) -> bytes:
    """The stream's own absolute URL, as the client addressed it, also through a proxy."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return request_origin(scope, headers).encode("latin-1") + path
