"""Exports the metrics of the server by OTLP: those of `/metrics`, with the same names and labels.

The values are read on the event loop, where they change, and sent by a thread. Import this module only if the export is
configured: it needs the extra `otel`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from mainstem import __version__
from mainstem.errors import MainstemError
from mainstem.metrics.instruments import Family, Histogram, Kind, Labels
from mainstem.server.telemetry.export_failures import ExportFailures

logger = logging.getLogger(__name__)
SCOPE: Final = InstrumentationScope("mainstem", __version__)
UNITS: Final = {"seconds": "s", "bytes": "By"}
CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """Exports metrics periodically between `start` and `stop`.

    `refresh` is awaited before the metrics are read, for those that have to be looked up.
    """

    def __init__(
        self,
        exporter: MetricExporter,
        resource: Resource,
        families: Iterable[Family[Any]],
        refresh: Callable[[], Awaitable[None]],
        interval_s: float,
        failures: ExportFailures,
    ) -> None:
        self._exporter = exporter
        self._resource = resource
        self._families = families
        self._refresh = refresh
        self._interval_s = interval_s
        self._failures = failures
        self._began_ns = time.time_ns()
        self._latest: MetricsData | None = None
        """What the thread exports next. If it is still busy, newer values replace it: metrics are cumulative."""
        self._ready = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._export, name="mainstem-otlp-metrics", daemon=True)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()
        self._task = asyncio.create_task(self._run(), name="mainstem-otlp-metrics")

    async def stop(self) -> None:
        """Hand over the last values; `join` waits until they have been sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._stopping = True
        self._offer()

    def join(self, timeout_s: float) -> None:
        """Wait for the last export, and then give up. Call this in a thread."""
        self._thread.join(timeout_s)
        self._exporter.shutdown()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._refresh()
            except MainstemError as error:
                logger.info("some metrics could not be looked up: %s", error.detail)
            self._offer()

    def _offer(self) -> None:
        now_ns = time.time_ns()
        metrics = [convert(family, self._began_ns, now_ns) for family in self._families]
        scope = ScopeMetrics(SCOPE, [metric for metric in metrics if metric is not None], "")
        self._latest = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        self._ready.set()

    def _export(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            last = self._stopping
            data, self._latest = self._latest, None
            if data is not None and self._exporter.export(data) is not MetricExportResult.SUCCESS:
                self._failures.report(1)
            if last:
                return


def convert(family: Family[Any], began_ns: int, now_ns: int) -> Metric | None:
    """Return the current values of a metric; None if it has none."""
    data: DataT
    if family.kind is Kind.HISTOGRAM:
        histograms = [
            _convert_histogram(child, _name_labels(family, values), began_ns, now_ns)
            for values, child in list(family.children.items())
        ]
        if not histograms:
            return None
        data = HistogramData(histograms, CUMULATIVE)
    else:
        numbers = family.read() if family.read is not None else list(_read_children(family))
        start_ns = began_ns if family.kind is Kind.COUNTER else 0
        points = [NumberDataPoint(_name_labels(family, values), start_ns, now_ns, number) for values, number in numbers]
        if not points:
            return None
        data = Sum(points, CUMULATIVE, True) if family.kind is Kind.COUNTER else Gauge(points)
    return Metric(family.name, family.meaning, find_unit(family.name), data)


def find_unit(name: str) -> str:
    """Return the unit that a name ends with. Others have none: a 1 would make collectors change their names."""
    return UNITS.get(name.removesuffix("_total").rpartition("_")[2], "")


def _read_children(family: Family[Any]) -> Iterable[tuple[Labels, float]]:
    return [(values, child.value) for values, child in list(family.children.items())]


def _name_labels(family: Family[Any], values: Labels) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))


def _convert_histogram(child: Histogram, labels: dict[str, str], began_ns: int, now_ns: int) -> HistogramDataPoint:
    counts = list(child.counts)
    bounds = [float(bound) for bound in child.bounds]
    # Mainstem does not know the extremes, which are optional in OTLP.
    unknown: Any = None
    return HistogramDataPoint(labels, began_ns, now_ns, sum(counts), child.sum, counts, bounds, unknown, unknown)
