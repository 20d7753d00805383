"""Reports in the log that a collector does not take what the server exports: a line per interval, without a trace."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from mainstem import limits
from mainstem.escaping import escape_line

logger = logging.getLogger(__name__)
SDK: Final = "opentelemetry"
"""The parent of all loggers of the SDK."""
EXPORTERS: Final = "opentelemetry.exporter."


class ExportFailures:
    """Counts what was lost. Exporters call it from threads of their own."""

    def __init__(self, collector: str, things: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._collector = collector
        self._things = things
        self._clock_s = clock_s
        self._lost = 0
        self._next_s = 0.0
        self._lock = threading.Lock()

    def report(self, number: int) -> None:
        with self._lock:
            self._lost += number
            now_s = self._clock_s()
            if now_s < self._next_s:
                return
            self._next_s = now_s + limits.EXPORT_FAILURES_LOGGED_S
            lost, self._lost = self._lost, 0
        logger.warning(
            "the OpenTelemetry collector at %s did not take %d %s, which are lost; check its address, or that it runs",
            self._collector,
            lost,
            self._things,
        )


class SdkLogs(logging.Handler):
    """Keeps the lines of the OpenTelemetry SDK out of the log, except one warning per interval without its traceback.

    Failed exports are left out: `ExportFailures` reports them.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock_s = clock_s
        self._next_s: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(EXPORTERS) and record.thread != threading.main_thread().ident:
            return  # the main thread only configures exporters
        now_s = self._clock_s()
        if now_s >= self._next_s.get(record.name, 0.0):
            self._next_s[record.name] = now_s + limits.EXPORT_FAILURES_LOGGED_S
            logger.warning("the OpenTelemetry SDK reports: %s", escape_line(record.getMessage()))


def quiet_sdk() -> None:
    """Take over the log lines of the SDK. This is for a process of our own, and not for an embedded app."""
    sdk = logging.getLogger(SDK)
    if not any(isinstance(handler, SdkLogs) for handler in sdk.handlers):
        sdk.addHandler(SdkLogs())
        sdk.propagate = False
