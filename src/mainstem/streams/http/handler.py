"""The Durable Streams protocol as an ASGI handler, without a framework."""

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
    Response,
    base_headers,
    respond,
    respond_head,
    respond_problem,
)
from mainstem.long_work import run_sized
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork
from mainstem.streams.http.append import append_reply, parse_messages, parsed_size, prepare_append, read_append_headers
from mainstem.streams.http.headers import CatchUp, parse_read, read_lifetime, read_retention
from mainstem.streams.http.reads import ReadRequest, Reads, measure_page
from mainstem.streams.reading.reader import Streams, StreamSource
from mainstem.streams.rules import content_types, paths
from mainstem.streams.rules.forks import parse_sub_offset
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.rules.offsets import Offset, Sentinel, parse_offset
from mainstem.streams.rules.retention import format_retention
from mainstem.streams.states import StreamState
from mainstem.streams.subscriptions.http import ControlHttp
from mainstem.traces import read_traced

# Protocol section 10.1. A page never changes, but more data may follow it, so caches revalidate after a minute.
CACHE_CONTROL = b"public, max-age=60, stale-while-revalidate=300"


class StreamsHttp:
    """Handles all requests under the stream prefix."""

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
        self.reads = Reads(
            streams.log,
            long_poll_ms=long_poll_ms,
            page_bytes=streams.page_bytes,
            page_headers=CORS_HEADERS,
            cache_control=CACHE_CONTROL,
            compresses=True,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send, raw_path: bytes) -> None:
        """Handle a request. `raw_path` is the part of the path after the prefix, still percent-encoded."""
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
                body = await self._read_body(headers, receive)
                status, reply = await self.append(path, headers, body)
                await respond(send, status, [*base_headers(headers), *reply])
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
                    f"{method} is not supported for streams", headers={"Allow": ALLOWED_METHODS.decode()}
                )
        except MainstemError as error:
            await respond_problem(scope, send, error)

    # Writing

    async def append(self, path: str, headers: Headers, body: bytes) -> tuple[int, HeaderList]:
        """Append a body, and return the status of the reply and its headers besides `base_headers`."""
        content_type = headers.get(b"content-type", b"")[: limits.CONTENT_TYPE_BYTES_MAX].decode("latin-1")
        size = parsed_size(content_type, body)
        known = read_append_headers(headers)
        command = await run_sized(
            size, limits.PARSE_INLINE_BYTES_MAX, prepare_append, self.streams, path, known, headers, body
        )
        done = await self.streams.log.submit(command)
        self.streams.touch(path, done.state)  # a retry that stores nothing still counts as use
        return append_reply(done)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body, unless the log is too busy to store it."""
        self.streams.log.require_room(int(headers.get(b"content-length", 0)))
        return await read_body(headers, receive, self.body_bytes_max)

    async def _create(self, path: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        content_type = text_header(headers, b"content-type", limits.CONTENT_TYPE_BYTES_MAX)
        if content_type:
            content_types.check_content_type(content_type)
        lifetime = read_lifetime(headers)
        source = text_header(headers, b"stream-forked-from", 3 * limits.STREAM_PATH_BYTES_MAX)
        if source is None and (b"stream-fork-offset" in headers or b"stream-fork-sub-offset" in headers):
            raise BadHeader("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        body = await self._read_body(headers, receive)
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
            raise BadHeader("a fork cannot have Stream-Retention, because it keeps all that it inherits")
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
                raise BadQuery("tail cannot be combined with offset or live")
            await self._read_tail(path, parse_count(query["tail"], "tail", limits.TAIL_MESSAGES_MAX), headers, send)
            return
        live, offset, cursor = parse_read(headers, scope)
        state = await self._find_and_touch(path)
        content = self._content_headers(state)
        if live is None and offset is Sentinel.NOW:
            tail = self.reads.describe_tail(state.next_offset, state.closed, None)
            body = b"[]" if content_types.is_json(state.content_type) else b""
            await respond(send, 200, [*CORS_HEADERS, *tail, NO_STORE, *content], body)
            return
        source = StreamSource(self.streams, path, state)
        start, extra = self.streams.resolve(state, offset), describe_start(state, offset)
        request = ReadRequest(live, start, cursor, headers, extra)
        await self.reads.respond(source, request, content, scope, receive, send)

    def find_page(self, read: CatchUp, headers: Headers) -> Response | None:
        """Return the response to a catch-up read if the stream and the page are in memory, or else None."""
        state = self.streams.peek(read.path)
        if state is None or read.offset is Sentinel.NOW:
            return None
        try:
            start = self.streams.resolve(state, read.offset)
        except MainstemError:
            return None
        source, content = StreamSource(self.streams, read.path, state), self._content_headers(state)
        response = self.reads.find_page(source, start, content, headers, describe_start(state, read.offset))
        if response is not None:
            self.streams.touch(read.path, state)
        return response

    async def _read_tail(self, path: str, count: int, headers: Headers, send: Send) -> None:
        """Respond with the last messages of a stream: an extension of the protocol."""
        state = await self._find_and_touch(path)
        page = await read_traced(self.streams.read_tail(state, count), measure_page)
        source, content = StreamSource(self.streams, path, state), self._content_headers(state)
        await respond(send, *await self.reads.make_uncached_page(source, page, content, headers, b"no-store"))

    async def _find_and_touch(self, path: str) -> StreamState:
        state = await self.streams.find(path)
        self.streams.touch(path, state)
        return state

    def _content_headers(self, state: StreamState) -> HeaderList:
        """Return the headers that describe the content. A browser must download content that could run scripts, instead
        of showing it."""
        content_type = (b"content-type", state.content_type.encode())
        if content_types.is_active(state.content_type) and not self.allow_active_content:
            return [content_type, (b"content-disposition", b"attachment")]
        return [content_type]


async def parse_first_messages(content_type: str, body: bytes) -> Messages:
    """Parse the first messages of a new stream, in a thread if the body is large."""
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


def describe_start(state: StreamState, offset: Offset | Sentinel) -> HeaderList:
    """Return the header from which a reader of the beginning learns that the stream has been trimmed."""
    if offset is not Sentinel.BEGINNING or not state.earliest:
        return []
    return [(b"stream-earliest-offset", str(state.earliest_offset).encode())]


def location(scope: Scope, headers: Headers) -> bytes:
    """Return the absolute URL of the stream as the client addressed it, even through a proxy."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return request_origin(scope, headers).encode("latin-1") + path
