"""Observes requests: counts them, writes them to the access log, and reports refused ones in the log of the server."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, MutableMapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.http.asgi import Scope, Send
from mainstem.http.request_ids import accept_request_id, make_request_id
from mainstem.metrics.catalogue import REQUEST_SECONDS, Metrics
from mainstem.metrics.instruments import Counter, Histogram
from mainstem.server.edge.connection import Connection
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.request_cycle import RequestCycle
from mainstem.server.proxies import Proxies
from mainstem.server.telemetry.access_log import AccessLog

if TYPE_CHECKING:
    from mainstem.server.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)
CLIENT_LEFT: Final = 499
"""The status of a request whose client left before the reply began, as nginx calls it."""
REFUSALS: Final = frozenset([401, 403, 408, 413, 421, 429, 431, 503, 507])
"""The statuses that the log reports: refused tokens, and limits."""
INVALID: Final = "invalid"
"""The route and method of what was no request."""

NameRoute = Callable[[str, bytes, bytes], str]
"""Returns the name of a route, from a method, a path and a query."""


class Series(msgspec.Struct, frozen=True):
    """The instruments of equal requests, found once and remembered with their heads."""

    status: int
    code: str
    requests: Counter
    seconds: Histogram
    bytes: Counter


class RequestObserver:
    def __init__(
        self,
        metrics: Metrics,
        name_route: NameRoute,
        proxies: Proxies,
        access_log: AccessLog | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._metrics = metrics
        self._name_route = name_route
        self._proxies = proxies
        self.access_log = access_log
        self.tracing = tracing
        self._series: dict[tuple[str, bytes, int, str], Series] = {}
        self._refusals = RefusalLog()

    # Requests of `mainstem serve`

    def observe(self, cycle: RequestCycle, complete: bool) -> None:
        head = cycle.head
        status = cycle.status or CLIENT_LEFT
        series: Series | None = head.observed
        if series is None or series.status != status or series.code != cycle.code:
            route = head.route or self.find_route(head)
            series = head.observed = self._find_series(route, head.method, status, cycle.code)
        seconds = perf_counter() - cycle.began_s
        series.requests.value += 1
        histogram = series.seconds  # what Histogram.observe does: a call would double the time that it takes
        histogram.counts[bisect_left(REQUEST_SECONDS, seconds)] += 1
        histogram.sum += seconds
        series.bytes.value += cycle.sent
        if cycle.code or cycle.span is not None or self.access_log is not None:
            self._report(cycle, status, seconds)

    def _report(self, cycle: RequestCycle, status: int, seconds: float) -> None:
        """Report a request wherever more than its number is of interest."""
        head = cycle.head
        if cycle.code and status in REFUSALS:
            self._refusals.report(status, cycle.code, head.method.decode(), head.route, self._client(cycle))
        if self.access_log is not None:
            self._log(self.access_log, cycle, head.route, status, seconds)
        if cycle.span is not None:
            cycle.span.end(cycle.status, cycle.code, cycle.request_id)

    def find_route(self, head: RequestHead) -> str:
        """Return the name of a request's route, and remember it with its head."""
        head.route = self._name_route(head.method.decode(), head.path, head.query)
        return head.route

    def observe_refusal(self, connection: Connection, error: MainstemError) -> None:
        self._find_series(INVALID, INVALID.encode(), error.status, error.code).requests.value += 1
        client = connection.client
        self._refusals.report(error.status, error.code, INVALID, INVALID, client[0] if client else None)

    def observe_handshake(self, head: RequestHead, status: int, code: str) -> None:
        """Count the handshake of a WebSocket."""
        self._find_series(head.route or self.find_route(head), head.method, status, code).requests.value += 1

    def _find_series(self, route: str, method: bytes, status: int, code: str) -> Series:
        known = self._series.get((route, method, status, code))
        if known is not None:
            return known
        found = Series(
            status,
            code,
            self._metrics.requests.of(route, method.decode(), str(status), code),
            self._metrics.request_seconds.of(route, method.decode()),
            self._metrics.response_bytes.of(route),
        )
        if len(self._series) < limits.REQUEST_SERIES_MAX:
            self._series[route, method, status, code] = found
        return found

    def _client(self, cycle: RequestCycle) -> str | None:
        fields = cycle.head.fields or {}
        client = self._proxies.client_of(cycle.connection.client, fields.get(b"x-forwarded-for"))
        return None if client is None else str(client[0])

    def _log(self, log: AccessLog, cycle: RequestCycle, route: str, status: int, seconds: float) -> None:
        head = cycle.head
        log.add(
            client=self._client(cycle),
            subject=None if cycle.identity is None else cycle.identity.name,
            method=head.method.decode(),
            path=head.path,
            route=route,
            status=status,
            code=cycle.code,
            size=cycle.sent,
            duration_s=seconds,
            request_id=cycle.request_id,
            headers=head.fields or {},
        )

    # Requests of an embedded app

    def begin(self, scope: Scope, path: bytes, send: Send) -> "EmbeddedRequest":
        """Observe a request that another server has received. Reply with the `send` of the result."""
        return EmbeddedRequest(self, scope, path, send)

    def observe_embedded(self, request: "EmbeddedRequest") -> None:
        scope = request.scope
        route = self._name_route(scope["method"], request.path, scope["query_string"])
        status = request.status or CLIENT_LEFT
        series = self._find_series(route, scope["method"].encode("latin-1", "replace"), status, request.code)
        seconds = perf_counter() - request.began_s
        series.requests.value += 1
        series.seconds.observe(seconds)
        series.bytes.value += request.sent
        client, identity = scope.get("client"), scope.get("mainstem.identity")
        if request.span is not None:
            request.span.end(request.status, request.code, scope["mainstem.request_id"])
        if self.access_log is not None:
            self.access_log.add(
                client=client[0] if client else None,
                subject=None if identity is None else identity.name,
                method=scope["method"],
                path=request.path,
                route=route,
                status=status,
                code=request.code,
                size=request.sent,
                duration_s=seconds,
                request_id=scope["mainstem.request_id"],
                headers=dict(scope["headers"]),
            )


class EmbeddedRequest:
    """A request to an app that is mounted in another one: its id, and what was sent in reply."""

    def __init__(self, observer: RequestObserver, scope: Scope, path: bytes, send: Send) -> None:
        self.scope = scope
        self.path = path
        self.began_s = perf_counter()
        self.status = 0
        self.code = ""
        self.sent = 0
        self._observer = observer
        self._send = send
        given = accept_request_id(next((value for name, value in scope["headers"] if name == b"x-request-id"), None))
        self.span = None if observer.tracing is None else observer.tracing.begin_embedded(scope, path)
        self._marked = bool(given) or observer.access_log is not None or self.span is not None
        scope["mainstem.request_id"] = given.decode("ascii") or make_request_id()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.code = message.get("mainstem.code", "")
            if self._marked or self.code:
                request_id = (b"x-request-id", self.scope["mainstem.request_id"].encode())
                message["headers"] = [*message["headers"], request_id]
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def finish(self) -> None:
        self._observer.observe_embedded(self)


class RefusalLog:
    """Reports refused requests in the log of the server, at most one line per code and interval."""

    def __init__(self) -> None:
        self._next_s: dict[str, float] = {}
        self._skipped: dict[str, int] = {}

    def report(self, status: int, code: str, method: str, route: str, client: str | None) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._next_s.get(code, 0.0):
            self._skipped[code] = self._skipped.get(code, 0) + 1
            return
        self._next_s[code] = now_s + limits.REFUSALS_LOGGED_S
        skipped = self._skipped.pop(code, 0)
        more = f"; {skipped} more since the last such line" if skipped else ""
        logger.info(
            "refused with %d %s: %s %s from %s%s", status, code, method, route, client or "a local socket", more
        )
