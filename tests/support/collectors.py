"""An OpenTelemetry collector: a real HTTP server in a thread that decodes and records what it receives by OTLP."""

import queue
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

WAIT_S_MAX = 20.0  # only a span that never comes takes this long
ERROR = 2
"""The status of a span that failed."""


class Span(NamedTuple):
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    status: int
    trace_state: str
    links: list[str]
    """The traces of other spans that it refers to."""


class Collector:
    """`answer` returns the status of the reply to a request for a path; it may be replaced, and may wait."""

    def __init__(self, answer: Callable[[str], int] = lambda path: 200) -> None:
        self.answer = answer
        self.headers: queue.Queue[dict[str, str]] = queue.Queue()
        self.metrics: queue.Queue[dict[str, Metric]] = queue.Queue()
        """The exports of metrics, by name."""
        self.metric_resources: list[dict[str, Any]] = []
        self._arrived: list[Span] = []
        self._changed = threading.Condition()
        self.released = threading.Event()
        """Also set when the collector closes, so that a held answer never outlives the test."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.headers.put({name.lower(): value for name, value in self.headers.items()})
                status = collector.answer(self.path)
                if status == 200:
                    collector._record(self.path, body)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    pass  # the server has given up on this export

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = False

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _record(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            spans = list(_list_spans(ExportTraceServiceRequest.FromString(body)))
            with self._changed:
                self._arrived += spans
                self._changed.notify_all()
        elif path == "/v1/metrics":
            request = ExportMetricsServiceRequest.FromString(body)
            (found,) = request.resource_metrics
            self.metric_resources.append(_collect(found.resource.attributes))
            self.metrics.put({metric.name: metric for scope in found.scope_metrics for metric in scope.metrics})
        else:
            raise AssertionError(f"nothing is exported to {path}")

    @property
    def spans(self) -> list[Span]:
        with self._changed:
            return list(self._arrived)

    def wait_for(self, name: str, **attributes: Any) -> Span:
        """Return the first span with this name and these attributes, whose dots are written as two underscores."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}

        def find() -> Span | None:
            for span in self._arrived:
                if span.name == name and wanted.items() <= span.attributes.items():
                    return span
            return None

        with self._changed:
            assert self._changed.wait_for(lambda: find() is not None, WAIT_S_MAX), (name, wanted, self._arrived)
            found = find()
            assert found is not None
            return found

    def children(self, parent: Span, *names: str) -> list[Span]:
        """Return the children of a span once there are some with all these names, sorted by their beginning."""

        def find() -> list[Span]:
            found = [span for span in self._arrived if span.parent_id == parent.span_id]
            return sorted(found, key=lambda span: (span.began_ns, span.ended_ns))

        with self._changed:
            assert self._changed.wait_for(lambda: {span.name for span in find()} >= {*names}, WAIT_S_MAX), find()
            return find()


def _list_spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for group in request.resource_spans:
        resource = _collect(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _collect(span.attributes),
                    resource,
                    span.status.code,
                    span.trace_state,
                    [link.trace_id.hex() for link in span.links],
                )


def _collect(attributes: Any) -> dict[str, Any]:
    def value(found: KeyValue) -> Any:
        return getattr(found.value, found.value.WhichOneof("value") or "string_value")

    return {found.key: value(found) for found in attributes}
