"""The ASGI app: routes requests to the protocols, and owns the log that they share."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack
from urllib.parse import quote

from mainstem import __version__
from mainstem.access import EVERYBODY, PRIVATE, PUBLIC_READER, Identity
from mainstem.errors import MainstemError, NotFound, SettingsError, Unavailable
from mainstem.http.asgi import Headers, Receive, Scope, Send
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.responses import PREFLIGHT_HEADERS, respond, respond_problem
from mainstem.log.commit import SECURE_RANDOM, CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore, SqliteStore, Store
from mainstem.log.store.base import UNKNOWN
from mainstem.log.store.postgres.urls import describe_url
from mainstem.metrics.catalogue import Metrics
from mainstem.server.app_transport import AppTransport
from mainstem.server.auth.credentials import Source, restrict
from mainstem.server.auth.gate import open_gate
from mainstem.server.edge.heads import RequestHead, normalise_path
from mainstem.server.edge.request_cycle import Plan, RequestCycle
from mainstem.server.endpoints.append import plan_append
from mainstem.server.endpoints.browser_client import BrowserClient, is_client_file
from mainstem.server.endpoints.console import Console
from mainstem.server.endpoints.cookie import CookieHttp
from mainstem.server.endpoints.descriptions import Descriptions
from mainstem.server.endpoints.health import Health
from mainstem.server.endpoints.jobs import Jobs
from mainstem.server.endpoints.metrics import MetricsHttp
from mainstem.server.endpoints.partition_list import PartitionList
from mainstem.server.endpoints.partitions import PartitionsHttp
from mainstem.server.endpoints.reads import plan_read
from mainstem.server.endpoints.sessions import Sessions
from mainstem.server.endpoints.signed_urls import SignedUrls
from mainstem.server.endpoints.stream_offsets import StreamOffsets
from mainstem.server.endpoints.stream_snapshots import StreamSnapshots
from mainstem.server.endpoints.whoami import Whoami
from mainstem.server.log_api.http import LogHttp
from mainstem.server.log_api.identity import settle_identity
from mainstem.server.origins import PUBLIC, READ_ONLY, open_origins, open_page_origins
from mainstem.server.proxies import open_proxies
from mainstem.server.routes import ADMIN_PATHS, SYNC, SYNC_CORE, Endpoints, find_route
from mainstem.server.settings import Settings, SettingsKeywords, make_settings
from mainstem.server.telemetry.access_log import AccessLog
from mainstem.server.telemetry.otel import open_telemetry
from mainstem.server.telemetry.process import LogCounter, measure_process, sample_loop_lag
from mainstem.server.telemetry.requests import RequestObserver
from mainstem.server.telemetry.route_names import name_route
from mainstem.shares import Share, Shares
from mainstem.streams.http.handler import StreamsHttp
from mainstem.streams.http.headers import CatchUp
from mainstem.streams.http.listing import StreamsListing
from mainstem.streams.reading.reader import Streams
from mainstem.streams.reading.sets import StreamSets
from mainstem.streams.reaper import Reaper
from mainstem.streams.rules.paths import Mount, parse_path
from mainstem.streams.states import stream_key
from mainstem.streams.subscriptions.admin_http import SubscriptionsAdmin
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.streams.subscriptions.http import ControlHttp
from mainstem.streams.subscriptions.webhook_client import WebhookClient
from mainstem.sync.hub import Hub
from mainstem.sync.pruner import Pruner
from mainstem.sync.validation.tree import tree_validator
from mainstem.sync.validation.validators import Validator, load_hook, load_schemas, model_validator
from mainstem.sync.websocket import SyncSocket
from mainstem.traces import current_trace

if TYPE_CHECKING:
    from mainstem.client.aio.streams import AsyncStreams

logger = logging.getLogger(__name__)


Public = Literal["write", "read", "none"]
VISITORS: Final[dict[Public, Identity]] = {"write": EVERYBODY, "read": PUBLIC_READER, "none": PRIVATE}


def wall_clock_us() -> int:
    return time.time_ns() // 1000


def create_app(
    settings: Settings | None = None,
    *,
    validate: Validator | None = None,
    public: Public = "write",
    **values: Unpack[SettingsKeywords],
) -> "Mainstem":
    """Return the server as an ASGI app.

    Pass a `Settings` object, or its fields as keywords: `create_app(data="./log")`.

    `validate` checks sync events, in place of the validation that `sync_validation` names. It may be
    `model_validator({"task": check_task})`, with callables of your own.

    `public` is what everybody who can reach the app may do, without tokens: "write" everything, "read" streams, or
    "none". Your own program writes with `Mainstem.client`.

    If you mount the app in another one, run `Mainstem.lifespan` in the lifespan of that app, to open and close the log.

    Raises `SettingsError` for an unknown keyword or a wrong value.
    """
    if settings is not None and values:
        raise SettingsError("pass create_app either a Settings object or keywords, not both")
    settings = settings or make_settings(values)
    if settings.test_endpoints:
        raise SettingsError(
            "test_endpoints needs `mainstem serve`: an embedded app cannot break its host's connections"
        )
    if public not in VISITORS:
        raise SettingsError(f"public is {public!r}; it must be one of: {', '.join(VISITORS)}")
    if public != "write" and settings.authenticates:
        raise SettingsError("with tokens, every caller needs one, whose claims say what it may do: leave out `public`")
    return Mainstem(settings, validate=validate, visitor=VISITORS[public])


def open_store(settings: Settings) -> Store:
    if settings.store == "memory":
        return MemoryStore()
    if settings.store == "sqlite":
        return SqliteStore(settings.data)
    try:
        from mainstem.log.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"a PostgreSQL store needs the package {error.name}; install it with: pip install 'mainstem[postgres]'"
        ) from None
    return PostgresStore(settings.store)


def describe_store(settings: Settings) -> str:
    """Return where the log is stored, for the ready line, without the password of a URL."""
    if settings.store == "memory":
        return "in memory: nothing is kept"
    return f"sqlite in {settings.data}" if settings.store == "sqlite" else describe_url(settings.store)


def kind_of_store(settings: Settings) -> str:
    return settings.store if settings.store in ("sqlite", "memory") else "postgresql"


def choose_validator(settings: Settings) -> Validator | None:
    """Return the validation of sync events that the settings ask for; None accepts any object."""
    if settings.sync_validation == "model":
        if not settings.sync_schemas:
            raise SettingsError("sync_validation = model needs sync_schemas, a directory of JSON Schemas")
        return model_validator(load_schemas(settings.sync_schemas))
    if settings.sync_validation == "tree":
        return tree_validator
    if settings.sync_validation == "hook":
        if not settings.sync_hook:
            raise SettingsError("sync_validation = hook needs sync_hook, as package.module:callable")
        return load_hook(settings.sync_hook)
    return None


class Mainstem:
    def __init__(
        self,
        settings: Settings,
        *,
        store: Store | None = None,
        clock_us: Callable[[], int] = wall_clock_us,
        random: Random = SECURE_RANDOM,
        webhooks: WebhookClient | None = None,
        validate: Validator | None = None,
        guard_hosts: bool = False,
        console: bool | None = None,
        visitor: Identity = EVERYBODY,
    ) -> None:
        """`guard_hosts` refuses unknown host names, for `mainstem serve`: an embedded app cannot know its names.

        `console` says whether to serve the web console. None leaves it to the settings, and an embedded app has none
        unless they ask for it. `visitor` is the caller of every request if there are no tokens.
        """
        self.settings = settings
        self.proxies = open_proxies(settings)
        self.origins = open_origins(settings, guard_hosts=guard_hosts)
        self.pages = open_page_origins(settings)
        """The rules for web pages: the first without tokens, the second with tokens; the other one is None."""
        self.mount = Mount(settings.stream_prefix)
        self._has_console = settings.console == "on" if console is None else console
        self._visitor = visitor
        self.gate = open_gate(settings, clock_us, self.pages, console=self._has_console, visitor=visitor)
        self.store = store or open_store(settings)
        self.clock_us = clock_us
        self.random = random
        self._webhooks = webhooks
        self.validate = validate
        self._guard_hosts = guard_hosts
        self._client: AsyncStreams | None = None
        self.endpoints: Endpoints | None = None
        """None while the log is not open."""
        self.shares = Shares(
            {
                Share.LIVE_READERS: settings.max_live_readers_per_client,
                Share.SUBSCRIPTIONS: settings.max_subscriptions_per_client,
                Share.CONNECTIONS: settings.max_connections_per_client,
            }
        )
        self.metrics = self.store.metrics = Metrics()
        self.live = Live(self.shares, self.metrics)
        self.metrics.build.of(__version__, kind_of_store(settings)).value = 1
        self.telemetry = open_telemetry(os.environ, partial(name_route, self.mount), self.proxies)
        """Exports traces and metrics; None if that is not configured."""
        self.tracing = None if self.telemetry is None else self.telemetry.tracing
        self.observer = self._open_observer()
        """Observes requests; None if nobody wants to know about them."""

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Open the log on entry and close it on exit. Pass it to Starlette or FastAPI as `lifespan=`."""
        async with AsyncExitStack() as stack:
            if self.telemetry is not None:
                stack.push_async_callback(self.telemetry.stop)
            await self.store.open()
            stack.push_async_callback(self.store.close)
            clock_us = self.store.clock(self.clock_us)
            log = CommitLog(self.store, self.live, clock_us, self.random, self.metrics, self.tracing)
            log.start()
            stack.push_async_callback(log.stop)
            await settle_identity(log)
            if self.gate is not None and self.gate.authenticator is not None:
                await self.gate.authenticator.start()
                stack.push_async_callback(self.gate.authenticator.stop)
            self.endpoints = await self._open_endpoints(log, stack)
            if self.telemetry is not None and self.telemetry.exports_metrics:
                self.telemetry.start_metrics(self.metrics.families, self.endpoints.metrics.refresh)
                stack.push_async_callback(self.telemetry.stop_metrics)
            stack.callback(self.release_readers)
            yield
        self.endpoints = None

    @property
    def exclusive(self) -> bool:
        """Whether only this process can have the log open: every process that had it open before has ended."""
        return not self.store.shared

    def client(self) -> "AsyncStreams":
        """Return the client of the program that embeds this app. It needs no port and no token, and may do everything.

        It works while the lifespan of the app runs, on the same event loop.
        """
        if self._client is None:
            from mainstem.client.aio.streams import AsyncStreams  # most servers need no client, and start sooner

            transport = AppTransport(self)
            self._client = AsyncStreams(transport.url, prefix=self.settings.stream_prefix, transport=transport)
        return self._client

    async def _open_endpoints(self, log: CommitLog, stack: AsyncExitStack) -> Endpoints:
        """Start the background work, and create the handlers of requests."""
        settings = self.settings
        if self.observer is not None and self.observer.access_log is not None:
            self.observer.access_log.start()
            stack.callback(self.observer.access_log.stop)
        if self._measures:
            measure_process(self.metrics)
            sampler = asyncio.create_task(sample_loop_lag(self.metrics), name="mainstem-loop-lag")
            stack.push_async_callback(cancel, sampler)
            lines = LogCounter(self.metrics)
            logging.getLogger("mainstem").addHandler(lines)
            stack.callback(logging.getLogger("mainstem").removeHandler, lines)
        streams = Streams(log, settings.page_bytes)
        reaper = Reaper(streams)
        reaper.start()
        stack.push_async_callback(reaper.stop)
        jobs = Jobs(streams)
        await jobs.start()
        stack.push_async_callback(jobs.stop)
        # Nothing is awaited after the dispatcher has started: receivers of webhooks call back at once.
        webhooks = self._webhooks or WebhookClient(allow_local=settings.allow_local_webhooks)
        dispatcher = Dispatcher(log, webhooks)
        await dispatcher.start()
        stack.push_async_callback(dispatcher.stop)
        hub = Hub(log)
        hub.start()
        stack.callback(hub.stop)
        pruner = Pruner(log)
        pruner.start()
        stack.push_async_callback(pruner.stop)
        authenticator = None if self.gate is None else self.gate.authenticator
        log_http = LogHttp(log)
        stack.push_async_callback(log_http.stop)
        sync = SyncSocket(
            hub,
            self._identify,
            validate=self.validate or choose_validator(settings),
            implicit_subscriptions=settings.implicit_subscriptions,
            uuids_only=settings.sync_ids == "uuid",
        )
        return Endpoints(
            streams=StreamsHttp(
                streams,
                ControlHttp(dispatcher, self.mount, allow_local_webhooks=settings.allow_local_webhooks),
                self.mount,
                body_bytes_max=settings.max_body_bytes,
                long_poll_ms=settings.long_poll_ms,
                allow_active_content=settings.allow_active_content,
            ),
            streams_listing=StreamsListing(streams),
            subscriptions=SubscriptionsAdmin(dispatcher),
            stream_sets=StreamSets(streams),
            stream_snapshots=StreamSnapshots(streams),
            stream_offsets=StreamOffsets(streams),
            partition_list=PartitionList(log.store),
            partitions=PartitionsHttp(
                hub, pruner, streams, long_poll_ms=settings.long_poll_ms, page_bytes=settings.page_bytes
            ),
            jobs=jobs,
            sessions=Sessions(sync),
            whoami=Whoami(authenticates=authenticator is not None),
            cookie=CookieHttp(self.pages, self.clock_us),
            signed_urls=SignedUrls(authenticator, self.mount, self.clock_us),
            log=log_http,
            metrics=MetricsHttp(self.metrics, log, dispatcher, settings.metrics),
            health=Health(self.store, self.live),
            descriptions=Descriptions(self._describe_http, self._describe_sync),
            console=Console(settings, lambda: self.store.head, enabled=self._has_console),
            browser_client=BrowserClient(),
            sync=sync,
        )

    def _open_observer(self) -> RequestObserver | None:
        settings = self.settings
        if not self._measures and settings.access_log == "off" and self.tracing is None:
            return None
        access_log = None
        if settings.access_log != "off":
            access_log = AccessLog(settings.access_log, self.metrics.access_lines_lost.of(), self.clock_us)
        return RequestObserver(self.metrics, partial(name_route, self.mount), self.proxies, access_log, self.tracing)

    @property
    def _measures(self) -> bool:
        """Whether anybody reads the metrics."""
        return self.settings.metrics != "off" or (self.telemetry is not None and self.telemetry.exports_metrics)

    @property
    def marks_requests(self) -> bool:
        """Whether every reply has the id of its request, because logs or traces have it, too."""
        return self.settings.access_log != "off" or self.tracing is not None

    def _describe_http(self, root: str) -> dict[str, Any]:
        from mainstem.server.descriptions.openapi import build_openapi  # most servers are never asked

        return build_openapi(self.settings, guard_hosts=self._guard_hosts) | {"servers": [{"url": quote(root) or "/"}]}

    def _describe_sync(self, root: str) -> dict[str, Any]:
        from mainstem.server.descriptions.asyncapi import build_asyncapi

        return build_asyncapi(self.settings, quote(root))

    async def _identify(self, token: str) -> Identity:
        if self.gate is None or self.gate.authenticator is None:
            return self._visitor
        return await self.gate.authenticator.identify(token)

    def release_readers(self) -> None:
        """End the responses of all live readers, because the server is about to stop."""
        self.live.release()
        if self.endpoints is not None:
            self.endpoints.sync.release()

    def plan_fast_path(self, head: RequestHead) -> Plan | None:
        """Return how to serve requests with this head without a task; None leaves them to ASGI."""
        if self.observer is not None:
            self.observer.find_route(head)  # here, because heads of the same kind inherit it from the first
        if head.method == b"POST":
            append = plan_append(
                head, self.mount, self.settings.max_body_bytes, self._admit_append, self._choose_token_policy
            )
            return None if append is None or not self._is_admissible(append.headers, command=True) else append
        read = plan_read(head, self.mount, self._respond_from_memory)
        return None if read is None or not self._is_admissible(read.headers, command=False) else read

    def _is_admissible(self, headers: Headers, *, command: bool) -> bool:
        """Return whether the site that a request comes from may send it. If not, ASGI replies with the error."""
        if self.origins is None:
            return True
        try:
            self.origins.check_host(headers.get(b"host"))
            if command:
                self.origins.check_command(headers.get(b"origin"), headers.get(b"host"))
        except MainstemError:
            return False
        return True

    def _admit_append(self, headers: Headers, client: tuple[str, int] | None) -> tuple[Streams, Identity] | None:
        """Check the token and the rate of one append; None leaves it to ASGI."""
        if self.endpoints is None:
            return None
        identity: Identity | None = self._visitor
        if self.gate is not None:
            client = self.proxies.client_of(client, headers.get(b"x-forwarded-for"))
            identity = self.gate.admit_known(headers, client)
        return None if identity is None else (self.endpoints.streams.streams, identity)

    def _respond_from_memory(self, cycle: RequestCycle, read: CatchUp, headers: Headers) -> bool:
        """Reply to a catch-up read if everything that it needs is in memory; otherwise ASGI replies."""
        if self.endpoints is None:
            return False
        identity = self._visitor if self.gate is None else self.gate.find_known(headers)
        if identity is None or not identity.may_read(read.path):
            return False
        response = self.endpoints.streams.find_page(read, headers)
        if response is None:
            return False
        if self.gate is not None:
            client = self.proxies.client_of(cycle.connection.client, headers.get(b"x-forwarded-for"))
            if not self.gate.count_known(identity, client):
                return False
        policy = self._choose_token_policy(headers)
        status, reply, body = response
        cycle.respond(status, reply if policy is None else policy.apply(reply), body)
        return True

    def _choose_token_policy(self, headers: Headers) -> ReplyPolicy | None:
        """Return the policy for replies on the fast path, where callers have a token; None on a server without."""
        if self.pages is None:
            return None
        return restrict(self.pages.choose_policy(headers.get(b"origin")), Source.HEADER)

    def reads_from_memory(self, head: RequestHead) -> bool:
        """Return whether a request reads a stream whose state is in memory, so that it may not have to wait at all."""
        if head.method != b"GET" or head.length or self.endpoints is None or not head.path.startswith(self.mount.root):
            return False
        if self.gate is not None and (head.fields is None or self.gate.find_known(head.fields) is None):
            return False
        try:
            path = parse_path(head.path[len(self.mount.root) :])
        except MainstemError:
            return False
        return self.store.peek(stream_key(path)) is not UNKNOWN

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        root: str = scope.get("root_path", "")
        if root and path.startswith(root.encode()):
            path = path[len(root) :]
        path = normalise_path(path)
        self.proxies.resolve(scope)
        if scope["type"] != "http":
            await self._serve_websocket(path, scope, receive, send)
        elif self.observer is None or "mainstem.request_id" in scope:  # the edge observes its requests itself
            await self._serve_http(path, scope, receive, send)
        else:
            request = self.observer.begin(scope, path, send)
            token = current_trace.set(request.span)
            try:
                await self._serve_http(path, scope, receive, request.send)
            finally:
                current_trace.reset(token)
                request.finish()

    async def _serve_http(self, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        send = self.follow_policy(scope, path, send)
        try:
            self._check_origin(scope, path)
            if self.gate is None:
                scope["mainstem.identity"] = self._visitor
            else:
                await self.gate.admit(scope, path)
        except MainstemError as error:
            await respond_problem(scope, send, error)
            return
        await self.serve_admitted(path, scope, receive, send)

    async def serve_admitted(self, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose caller is known: the scope has its identity."""
        endpoints = self.endpoints
        if endpoints is None:
            await respond_problem(scope, send, Unavailable("the log is not open: run the lifespan of the Mainstem app"))
        elif path.startswith(self.mount.root):
            await endpoints.streams(scope, receive, send, path[len(self.mount.root) :])
        elif scope["method"] == "OPTIONS" and path.startswith(b"/v1/"):
            await respond(send, 204, PREFLIGHT_HEADERS)  # browsers ask before they send a token
        else:
            await self._serve_route(endpoints, path, scope, receive, send)

    def follow_policy(self, scope: Scope, path: bytes, send: Send) -> Send:
        """Return a `send` that applies the policy of the scope, which the gate may still restrict, to the reply."""
        if self.pages is None:
            return send
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        origin = origins[0] if len(origins) == 1 else None
        scope["mainstem.policy"] = PUBLIC if is_client_file(path) else self.pages.choose_policy(origin)

        async def send_by_policy(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                policy: ReplyPolicy = scope["mainstem.policy"]
                message = {**message, "headers": policy.apply(message["headers"])}
            await send(message)

        return send_by_policy

    async def _serve_route(self, endpoints: Endpoints, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            route = find_route(scope["method"], path)
            if route is None:
                raise NotFound(f"nothing is served at this path; streams are under {self.mount.prefix}/")
            scope["mainstem.subpath"] = path[len(route.path) :]
            await route.endpoint(endpoints)(scope, receive, send)
        except MainstemError as error:
            await respond_problem(scope, send, error)

    def _check_origin(self, scope: Scope, path: bytes) -> None:
        """Refuse requests from pages of other sites if no token protects the server."""
        if self.origins is None:
            return
        found = {name: value for name, value in scope["headers"] if name in (b"host", b"origin")}
        self.origins.check_host(found.get(b"host"))
        if scope.get("method", "CONNECT") not in READ_ONLY or path.startswith(ADMIN_PATHS):
            self.origins.check_command(found.get(b"origin"), found.get(b"host"))

    async def _serve_websocket(self, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if self.endpoints is None or self.live.closing or path not in (SYNC, SYNC_CORE):
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "the sync protocol is served at /v1/sync"})
            return
        try:
            self._check_origin(scope, path)
            if self.gate is not None:
                self.gate.admit_socket(scope)
        except MainstemError as error:
            await receive()
            await respond_problem(scope, self.follow_policy(scope, path, as_handshake_denial(send)), error)
            return
        await self.endpoints.sync(scope, receive, send, core=path == SYNC_CORE)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        """Run the ASGI lifespan protocol, for a server that runs this app directly."""
        await receive()
        lifespan = self.lifespan()
        try:
            await lifespan.__aenter__()
        except Exception as error:  # noqa: BLE001 - the ASGI server reports it
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await lifespan.__aexit__(None, None, None)
        except Exception as error:
            logger.exception("the server did not stop cleanly")
            await send({"type": "lifespan.shutdown.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


async def cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def as_handshake_denial(send: Send) -> Send:
    """Wrap `send` to reply to a WebSocket handshake with an HTTP response (an ASGI extension)."""

    async def send_denial(message: MutableMapping[str, Any]) -> None:
        await send({**message, "type": "websocket." + message["type"]})

    return send_denial
