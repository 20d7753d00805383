"""Spans of OpenTelemetry for requests, submits, commits, pages and calls of webhooks.

No span has a query, a token or a payload. Import this module only if traces are configured: it needs the extra `otel`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry import propagate
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TracerProvider,
    get_current_span,
    set_span_in_context,
)

from mainstem import __version__, limits
from mainstem.errors import MainstemError
from mainstem.http.asgi import Scope
from mainstem.server.edge.heads import METHODS
from mainstem.server.edge.request_cycle import RequestCycle
from mainstem.server.proxies import Proxies
from mainstem.server.telemetry.route_names import UNMATCHED
from mainstem.server.telemetry.traced_appends import TracedAppends
from mainstem.streams.commands.append import Appended
from mainstem.streams.commands.create import Created
from mainstem.traces import Delivery, SettledCommand, name_error

ROOT: Final = Context()
"""The parent of a span that begins a trace."""
UNUSED: Final = frozenset(["baggage"])
"""Headers of propagators that no span needs."""
UNTRACED: Final = frozenset(["/healthz", "/readyz", "/metrics"])
"""Routes that monitoring calls again and again."""
SERVER_ERROR: Final = 500


class Tracing:
    """Begins the spans of one server."""

    def __init__(
        self, provider: TracerProvider, name_route: Callable[[str, bytes, bytes], str], proxies: Proxies
    ) -> None:
        self._tracer = provider.get_tracer("mainstem", __version__)
        self._name_route = name_route
        self._proxies = proxies
        names = sorted(name.lower() for name in propagate.get_global_textmap().fields if name not in UNUSED)
        self._names = [(name.encode("ascii"), name) for name in names]
        """The headers that continue a trace."""
        self._appends: TracedAppends[SpanContext] = TracedAppends()

    # Requests

    def begin(self, cycle: RequestCycle) -> "RequestSpan | None":
        """Return the span of a request to `mainstem serve`; None if the sampler leaves it out."""
        head = cycle.head
        fields = join(head.headers) if head.fields is None else head.fields
        method = head.method.decode("ascii")
        if not head.route:
            head.route = self._name_route(method, head.path, head.query)
        client = self._proxies.client_of(cycle.connection.client, fields.get(b"x-forwarded-for"))
        scheme = "https" if cycle.connection.secure else "http"
        return self._begin_request(method, head.route, head.path, scheme, client, self._extract(fields))

    def begin_embedded(self, scope: Scope, path: bytes) -> "RequestSpan | None":
        """Return the span of a request to an app that is mounted in another one, which may have a span of its own."""
        fields = join(scope["headers"])
        context = get_current() if get_current_span().get_span_context().is_valid else self._extract(fields)
        method = scope["method"] if scope["method"].encode("latin-1", "replace") in METHODS else "_OTHER"
        route = self._name_route(scope["method"], path, scope["query_string"])
        return self._begin_request(method, route, path, scope.get("scheme", "http"), scope.get("client"), context)

    def _begin_request(
        self, method: str, route: str, path: bytes, scheme: str, client: Any, context: Context
    ) -> "RequestSpan | None":
        if route in UNTRACED:
            return None
        attributes = {
            "http.request.method": method,
            "url.path": path.decode("latin-1")[: limits.ACCESS_FIELD_CHARACTERS_MAX],
            "url.scheme": scheme,
        }
        name = method
        if route != UNMATCHED:
            name = f"{method} {route}"
            attributes["http.route"] = route.partition("?")[0]
        if client is not None:
            attributes["client.address"] = str(client[0])
        span = self._tracer.start_span(name, context, SpanKind.SERVER, attributes)
        return RequestSpan(self, span) if span.is_recording() else None

    def _extract(self, fields: Mapping[bytes, bytes]) -> Context:
        """Return the trace that a caller has begun. A malformed header begins none."""
        carrier = {
            name: fields[raw].decode("latin-1")
            for raw, name in self._names
            if raw in fields and len(fields[raw]) <= limits.TRACE_HEADER_BYTES_MAX
        }
        return propagate.extract(carrier, ROOT) if carrier else ROOT

    # Everything else

    def begin_submit(self, drafts: int) -> "SubmitSpan | None":
        span = self._tracer.start_span("submit", ROOT, SpanKind.SERVER, {"mainstem.drafts": drafts})
        return SubmitSpan(self, span) if span.is_recording() else None

    def begin_delivery(self, delivery: Delivery) -> "DeliverySpan":
        causes = [
            context for path, acked, tail in delivery.streams for context in self._appends.find(path, acked, tail)
        ]
        parent = set_span_in_context(NonRecordingSpan(causes[0]), ROOT) if causes else ROOT
        url = urlsplit(delivery.url)
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "server.address": url.hostname or "",
            "server.port": url.port or (443 if url.scheme == "https" else 80),
            "mainstem.subscription_id": delivery.subscription,
            "mainstem.wake_id": delivery.wake_id,
        }
        if delivery.attempt:
            attributes["http.request.resend_count"] = delivery.attempt
        links = [Link(context) for context in causes[1 : limits.TRACE_LINKS_MAX + 1]]
        return DeliverySpan(self._tracer.start_span("webhook", parent, SpanKind.CLIENT, attributes, links))

    # Called by spans

    def add_span(
        self, name: str, parent: Context, began_ns: int, ended_ns: int, attributes: dict[str, int], error: str = ""
    ) -> None:
        """Add a span that has already ended."""
        span = self._tracer.start_span(name, parent, SpanKind.INTERNAL, attributes, start_time=began_ns)
        if error:
            fail(span, error)
        span.end(ended_ns)

    def remember(self, settled: SettledCommand, context: SpanContext) -> None:
        """Remember who appended data, because it may wake subscriptions."""
        outcome = settled.outcome
        if (isinstance(outcome, Appended) and outcome.wrote) or (isinstance(outcome, Created) and outcome.new):
            self._appends.add(settled.command.path, str(outcome.state.next_offset), context)


class OperationSpan:
    """The span of a request or a submit. The spans of its commands and pages are its children."""

    __slots__ = ("_context", "_ended", "_span", "_tracing")

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing = tracing
        self._span = span
        self._context = set_span_in_context(span, ROOT)
        self._ended = False

    def add_command(self, settled: SettledCommand) -> None:
        add = self._tracing.add_span
        add("queue", self._context, settled.enqueued_ns, settled.taken_ns, {})
        attributes = {"mainstem.batch_commands": settled.commands}
        if settled.first_id:
            attributes |= {
                "mainstem.first_committed_id": settled.first_id,
                "mainstem.last_committed_id": settled.last_id,
            }
        add("commit", self._context, settled.taken_ns, settled.settled_ns, attributes, find_fault(settled))
        if settled.accepted:
            self._tracing.remember(settled, self._span.get_span_context())

    def add_page(self, began_ns: int, size: int) -> None:
        if not self._ended:  # a timer that this request has set may read for others, too
            self._tracing.add_span("page", self._context, began_ns, time.time_ns(), {"mainstem.page_bytes": size})

    def finish(self) -> None:
        self._ended = True
        self._span.end()


class RequestSpan(OperationSpan):
    __slots__ = ()

    def end(self, status: int, code: str, request_id: str) -> None:
        """End the span of a request. Its status is 0 if its client left before the reply began."""
        span = self._span
        span.set_attribute("mainstem.request_id", request_id)
        if status:
            span.set_attribute("http.response.status_code", status)
        if code:
            span.set_attribute("mainstem.error_code", code)
        if status >= SERVER_ERROR:  # what a client does wrong is no error of the server
            fail(span, code or str(status))
        self.finish()


class SubmitSpan(OperationSpan):
    __slots__ = ()

    def end(self, error: str = "") -> None:
        if error:
            fail(self._span, error)
        self.finish()


class DeliverySpan:
    """The span of one call of a webhook."""

    __slots__ = ("_span", "headers")

    def __init__(self, span: Span) -> None:
        carrier: dict[str, str] = {}
        propagate.inject(carrier, set_span_in_context(span, ROOT))
        self.headers = {
            name: value
            for name, value in carrier.items()
            if value.isascii() and value.isprintable() and len(value) <= limits.TRACE_HEADER_BYTES_MAX
        }
        self._span = span

    def end(self, status: int, error: str = "") -> None:
        if status:
            self._span.set_attribute("http.response.status_code", status)
        if error:
            fail(self._span, error)
        self._span.end()


def fail(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(StatusCode.ERROR)


def find_fault(settled: SettledCommand) -> str:
    """Return the code of the error for which a commit failed. A refused command is no fault of the commit."""
    error = settled.outcome
    if settled.accepted or (isinstance(error, MainstemError) and error.status < SERVER_ERROR):
        return ""
    return name_error(error)


def join(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name. Repeated ones are joined, so a second `traceparent` makes both of them invalid."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        fields[name] = fields[name] + b"," + value if name in fields else value
    return fields
