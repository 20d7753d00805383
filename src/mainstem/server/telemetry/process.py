"""Measures of the process and its event loop. On systems without /proc only some of them are known."""

import asyncio
import gc
import logging
import os
import resource
import threading
import time
from pathlib import Path
from typing import Final

from mainstem import limits
from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.instruments import Reading

STATUS: Final = Path("/proc/self/statm")
FILES: Final = Path("/proc/self/fd")
STARTED_S: Final = time.time() - time.process_time()
"""When the process started. Imports are what it has done until now, so its CPU time is about its age."""


class LogCounter(logging.Handler):
    """Counts the lines of the log by level. Any thread may log: the handler holds its lock meanwhile.

    A logger without handlers prints warnings and errors to standard error. This one must not keep it from doing so.
    """

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._lines = {level: metrics.log_lines.of(level) for level in ("warning", "error", "critical")}

    def emit(self, record: logging.LogRecord) -> None:
        counter = self._lines.get(record.levelname.lower())
        if counter is not None:
            counter.value += 1
        if (
            logging.lastResort is not None
            and record.levelno >= logging.lastResort.level
            and self._is_alone(record.name)
        ):
            logging.lastResort.handle(record)

    def _is_alone(self, name: str) -> bool:
        """Return whether nothing but counters handles the lines of a logger, and this is the first of them."""
        handlers: list[logging.Handler] = []
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        return handlers[:1] == [self] and all(isinstance(handler, LogCounter) for handler in handlers)


def measure_process(metrics: Metrics) -> None:
    """Read the measures of this process at each scrape."""
    metrics.cpu_seconds.read_with(time.process_time)
    metrics.start_time.read_with(lambda: STARTED_S)
    metrics.files_max.read_with(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    metrics.threads.read_with(threading.active_count)
    metrics.collections.read = _count_collections
    if STATUS.exists():
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        metrics.resident_bytes.read_with(lambda: int(STATUS.read_text().split()[1]) * page_bytes)
        metrics.open_files.read_with(lambda: len(os.listdir(FILES)))


def _count_collections() -> Reading:
    return [((str(generation),), stats["collections"]) for generation, stats in enumerate(gc.get_stats())]


async def sample_loop_lag(metrics: Metrics) -> None:
    """Measure again and again how much too late the event loop runs a timer: that late it serves clients, too."""
    histogram = metrics.loop_lag_seconds.of()
    while True:
        due_s = time.perf_counter() + limits.LOOP_LAG_SAMPLE_S
        await asyncio.sleep(limits.LOOP_LAG_SAMPLE_S)
        histogram.observe(max(time.perf_counter() - due_s, 0.0))
