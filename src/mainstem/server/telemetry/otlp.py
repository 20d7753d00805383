"""OpenTelemetry for one server: traces and metrics that are exported by OTLP.

Import this module only if an export is configured: it needs the extra `otel`. The SDK interprets its variables.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import get_tracer_provider

from mainstem import __version__, limits
from mainstem.metrics.instruments import Family
from mainstem.server.proxies import Proxies
from mainstem.server.telemetry.export_failures import ExportFailures
from mainstem.server.telemetry.otel import Signals, describe_collector, read_interval_s
from mainstem.server.telemetry.otlp_metrics import MetricsExport
from mainstem.server.telemetry.tracing import Tracing

UNNAMED: Final = "unknown_service"


class Telemetry:
    """Exports between `start` and `stop`."""

    def __init__(
        self,
        signals: Signals,
        environ: Mapping[str, str],
        name_route: Callable[[str, bytes, bytes], str],
        proxies: Proxies,
    ) -> None:
        """Raises `ValueError` for a variable with an invalid value."""
        self._environ = environ
        self._resource = make_resource()
        self._provider: TracerProvider | None = None
        self._spans: ReportingExporter | None = None
        self._metric_exporter = OTLPMetricExporter() if signals.metrics else None
        self._metrics: MetricsExport | None = None
        self.tracing: Tracing | None = None
        """Begins spans; None if traces are not exported."""
        if signals.traces:
            provider = get_tracer_provider()
            if not isinstance(provider, TracerProvider):  # nobody has set one: the app around this one could have
                provider = self._provider = self._make_provider()
            self.tracing = Tracing(provider, name_route, proxies)

    @property
    def exports_metrics(self) -> bool:
        return self._metric_exporter is not None

    def _make_provider(self) -> TracerProvider:
        failures = ExportFailures(describe_collector(self._environ, "TRACES"), "spans")
        self._spans = ReportingExporter(OTLPSpanExporter(), failures)
        provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(self._spans))
        return provider

    def start_metrics(self, families: Sequence[Family[Any]], refresh: Callable[[], Awaitable[None]]) -> None:
        assert self._metric_exporter is not None
        failures = ExportFailures(describe_collector(self._environ, "METRICS"), "sets of metrics")
        interval_s = read_interval_s(self._environ)
        self._metrics = MetricsExport(self._metric_exporter, self._resource, families, refresh, interval_s, failures)
        self._metrics.start()

    async def stop_metrics(self) -> None:
        if self._metrics is not None:
            await self._metrics.stop()

    async def stop(self) -> None:
        """Export what is left, within a bound."""
        await asyncio.to_thread(self._flush)

    def _flush(self) -> None:
        # These threads are daemons: one that still waits for a collector does not keep the process from ending.
        flushing = [threading.Thread(target=work, daemon=True) for work in self._list_flushes()]
        deadline_s = time.monotonic() + limits.TELEMETRY_FLUSH_S_MAX
        for thread in flushing:
            thread.start()
        for thread in flushing:
            thread.join(max(deadline_s - time.monotonic(), 0.0))
        if self._spans is not None:
            self._spans.give_up()

    def _list_flushes(self) -> list[Callable[[], None]]:
        flushes: list[Callable[[], None]] = []
        if self._provider is not None:
            flushes.append(self._provider.shutdown)
        if self._metrics is not None:
            metrics = self._metrics
            flushes.append(lambda: metrics.join(limits.TELEMETRY_FLUSH_S_MAX))
        return flushes


class ReportingExporter(SpanExporter):
    """Exports spans, and reports in the log of the server if that fails."""

    def __init__(self, exporter: SpanExporter, failures: ExportFailures) -> None:
        self._exporter = exporter
        self._failures = failures
        self._gave_up = threading.Lock()
        self._ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE if self._ended else self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._failures.report(len(spans))
        return result

    def shutdown(self) -> None:
        self.give_up()

    def give_up(self) -> None:
        """End a retry that is under way. Further spans are lost."""
        with self._gave_up:
            if not self._ended:
                self._ended = True
                self._exporter.shutdown()


def make_resource() -> Resource:
    """Return what describes this server: what the variables say, and else what it knows itself."""
    found = Resource.create()
    known = {
        "service.name": "mainstem",
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
    }
    missing = {
        name: value
        for name, value in known.items()
        if name not in found.attributes or str(found.attributes[name]).startswith(UNNAMED)
    }
    return found.merge(Resource(missing))
