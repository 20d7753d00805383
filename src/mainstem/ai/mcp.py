"""Resumable MCP servers: an event store of the official SDK that keeps its events in Mainstem.

The SDK names the streams of a session after the ids of its requests ("1", "2", ...), which are the same in every
session, and does not pass the session to its event store. `DurableEventStore.wrap` adds it: without it, a client could
receive the messages of another one.
"""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import BadArgument, BadRequest, ClientError, NotFound, OffsetGone, StreamExists
from mainstem.streams.rules.json_mode import JSON

try:
    import anyio
    from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
    from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise ImportError("mainstem.ai.mcp needs the package mcp; install it with: pip install 'mainstem[mcp]'") from error

logger = logging.getLogger(__name__)

START = "0000000000000000_0000000000000000"
"""The offset at which every stream begins."""
RESPONSES = (JSONRPCResponse, JSONRPCError)
SESSION_HEADER = b"mcp-session-id"
VERSION_HEADER = b"mcp-protocol-version"
SESSION = re.compile(r"[0-9A-Za-z_-]{1,128}")
EVENT_ID = re.compile(SESSION.pattern.join("()") + r":([0-9A-Za-z_.~%-]{0,1024}):([0-9]{16}_[0-9]{16}):([0-9]{1,9})")
"""Session, stream, an offset, and how many messages after it."""


class _Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.ends: dict[str, str] = {}
        """The streams that exist, and where each of them ends, as far as this process has written it."""
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.unstored: dict[str, JSONRPCMessage] = {}
        """The responses that could not be stored, by stream."""
        self.replays: dict[str, anyio.CancelScope] = {}
        """The replays that are running, by stream."""

    @contextmanager
    def replay(self, stream: str) -> Iterator[None]:
        """Run a replay within its limits. A client that resumes a stream again has lost its earlier connection."""
        self.end_replay(stream)
        with anyio.move_on_after(limits.MCP_REPLAY_S) as scope:
            self.replays[stream] = scope
            if len(self.replays) > limits.MCP_REPLAYS_MAX:
                self.end_replay(next(iter(self.replays)))
            try:
                yield
            finally:
                if self.replays.get(stream) is scope:
                    del self.replays[stream]

    def end_replay(self, stream: str) -> None:
        """End the connection that resumes a stream, if there is one."""
        scope = self.replays.pop(stream, None)
        if scope is not None:
            scope.cancel()

    def keep(self, stream: str, response: JSONRPCMessage) -> None:
        """Keep a response that could not be stored, for the next replay of its stream."""
        self.unstored[stream] = response
        if len(self.unstored) > limits.MCP_UNSTORED_MAX:
            del self.unstored[next(iter(self.unstored))]
        self.end_replay(stream)  # it follows only what is stored

    def end_replays(self) -> None:
        for stream in list(self.replays):
            self.end_replay(stream)


_current: ContextVar[_Session | None] = ContextVar("mainstem_mcp_session", default=None)


class DurableEventStore(EventStore):
    """An event store for servers with streamable HTTP, in one JSON stream per stream of a session.

    `app = store.wrap(mcp.streamable_http_app(event_store=store))`. A transport of your own that serves one session
    needs no `wrap`: pass its id as `session`. Events expire `ttl_s` seconds after the last use of their stream.

    Only clients with protocol version 2025-11-25 or earlier can resume: `mcp.Client(url, mode="legacy")`. The SDK does
    not use an event store for requests of version 2026-07-28, which has no sessions.
    """

    def __init__(
        self, streams: AsyncStreams, prefix: str = "mcp", *, ttl_s: int = limits.RUN_TTL_S, session: str | None = None
    ) -> None:
        if session is not None and not SESSION.fullmatch(session):
            raise ValueError(f"the session {session!r} must be 1 to 128 letters, digits, '_' and '-'")
        self._streams = streams
        self._prefix = prefix.strip("/")
        self._ttl_s = ttl_s
        self._only = None if session is None else _Session(session)
        self._sessions: WeakValueDictionary[str, _Session] = WeakValueDictionary()  # by the ids that clients send
        self._warned = False

    # The interface of the SDK

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Append a message, or None for the event that tells a client where the stream begins, and return its id.

        The session of the SDK ends if storing a message fails. So a message that cannot be stored is logged instead,
        and gets the id of the one before it. A response is kept in memory too: the client waits until it has one.
        """
        session, stream = self._session(), quote(stream_id, safe="")
        lock = session.locks.setdefault(stream, asyncio.Lock())
        async with lock:  # so that the end of the stream after the append is the end of this message
            try:
                await self._store(session, stream, message)
            except Exception:
                if message is None:
                    raise
                if _responds(message, stream):
                    session.keep(stream, message)
                    logger.exception("a response of an MCP session was not stored: it is only in memory")
                else:
                    logger.exception("a message of an MCP session was not stored: clients that reconnect will miss it")
            return f"{session.name}:{stream}:{session.ends.get(stream, START)}:0"

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> None:
        """Send the messages that follow an event, then new ones as they are stored, up to the response of the request.

        It never returns the stream, so the SDK does not send new messages itself: it would miss those that are stored
        between the replay and its own registration of the connection. An event that this session does not have has no
        messages after it. A replay also ends after `limits.MCP_REPLAY_S`, and if the client resumes the same stream
        again, or too many others; the client can always resume from the last event that it has received.
        """
        session = self._session()
        parsed = EVENT_ID.fullmatch(last_event_id)
        if parsed is None or parsed[1] != session.name:
            return
        stream = parsed[2]
        with session.replay(stream):
            await self._replay(session, stream, parsed[3], int(parsed[4]), send_callback)

    # Sessions

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return an app that does the same, and tells the store which session each request belongs to.

        The SDK does not know the connections that resume a request. So they end here when a client ends its session.
        The SDK's timeout for idle sessions does not run while one of them is open.
        """

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            self._warn_of_version(_find_header(scope["headers"], VERSION_HEADER))
            id = _find_header(scope["headers"], SESSION_HEADER)
            session = self._sessions.get(id) or _Session(uuid4().hex)

            async def send_on(message: Message) -> None:
                if message["type"] == "http.response.start":
                    if id:
                        if scope["method"] == "DELETE" and message["status"] < 300:
                            session.end_replays()
                    elif new := _find_header(message.get("headers", ()), SESSION_HEADER):
                        # The tasks of the session keep the object, and the dictionary forgets it after them.
                        self._sessions[new] = session
                await send(message)

            token = _current.set(session)
            try:
                await app(scope, receive, send_on)
            finally:
                _current.reset(token)

        return wrapped

    def _warn_of_version(self, version: str) -> None:
        """Warn once if a client cannot resume: nothing else shows that its messages are not stored."""
        if version in MODERN_PROTOCOL_VERSIONS and not self._warned:
            self._warned = True
            logger.warning(
                "an MCP client uses protocol version %s, which cannot resume requests: their messages are not stored. "
                'Connect with version 2025-11-25 or earlier, in Python with mcp.Client(url, mode="legacy")',
                version,
            )

    def _session(self) -> _Session:
        session = self._only or _current.get()
        if session is None:
            raise RuntimeError(
                "the event store does not know the session: serve the app that store.wrap(app) returns, "
                "or pass the session's id to DurableEventStore"
            )
        return session

    # Streams

    def _path(self, session: _Session, stream: str) -> str:
        return f"{self._prefix}/{session.name}/request-{stream}"

    async def _replay(
        self, session: _Session, stream: str, offset: str, skipped: int, send_callback: EventCallback
    ) -> None:
        # A stream whose response was not stored has no end to wait for.
        read = self._streams.read if stream in session.unstored else self._streams.follow
        try:
            async with aclosing(read(self._path(session, stream), offset)) as batches:
                async for batch in batches:
                    for number, message in enumerate(batch.messages, 1):
                        if number > skipped and message is not None:
                            event = jsonrpc_message_adapter.validate_python(message)
                            await send_callback(EventMessage(event, f"{session.name}:{stream}:{offset}:{number}"))
                            if _responds(event, stream):
                                return
                    skipped = max(0, skipped - len(batch.messages))
                    offset = batch.offset
        except (BadArgument, BadRequest, NotFound, OffsetGone):
            pass  # the stream or the offset cannot exist, never existed, or has expired
        if stream in session.unstored:
            await send_callback(EventMessage(session.unstored[stream], f"{session.name}:{stream}:{offset}:{skipped}"))

    async def _store(self, session: _Session, stream: str, message: JSONRPCMessage | None) -> None:
        """Append a message, and retry while the server is away."""
        body = None if message is None else message.model_dump(mode="json", by_alias=True, exclude_unset=True)
        async with asyncio.timeout(limits.MCP_STORE_S):
            while True:
                try:
                    await self._append(session, stream, body)
                    return
                except ClientError as error:
                    if not error.retryable:
                        raise
                    logger.warning("a message of an MCP session could not be stored yet: %s", error)
                await asyncio.sleep(limits.RUN_RETRY_S)

    async def _append(self, session: _Session, stream: str, body: object) -> None:
        path = self._path(session, stream)
        try:
            if stream not in session.ends:
                await self._create(path)
            appended = await self._streams.append_json(path, body)
        except NotFound:  # it has expired
            session.ends.pop(stream, None)
            await self._create(path)
            appended = await self._streams.append_json(path, body)
        session.ends.pop(stream, None)  # it becomes the most recent one
        session.ends[stream] = appended.next_offset
        if len(session.ends) > limits.MCP_STREAMS_KNOWN_MAX:
            del session.ends[next(iter(session.ends))]

    async def _create(self, path: str) -> None:
        try:
            await self._streams.create(path, JSON, ttl_s=self._ttl_s)
        except StreamExists:  # with another TTL
            pass


def _responds(message: JSONRPCMessage, stream: str) -> bool:
    """Whether this is the response to the request of a stream, after which the stream has no more messages."""
    return isinstance(message, RESPONSES) and str(message.id) == unquote(stream)


def _find_header(headers: "list[tuple[bytes, bytes]]", name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), "")
