"""Shows a line per batch of the session's streaming queries: rows, rows per second, and how far they are behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from mainstem.pipeline.spark.errors import explain_query
from mainstem.pipeline.spark.query_reporter import read_positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


def show_progress(spark: SparkSession, write: Callable[[str], object] = print) -> ProgressPrinter:
    """Write a line per batch of the session's streaming queries. `write` may be a logger's method, such as
    `logger.info`. The result's `close` ends that."""
    printer = ProgressPrinter(spark, write)
    spark.streams.addListener(printer)
    return printer


class ProgressPrinter(StreamingQueryListener):
    """The listener of `show_progress`."""

    def __init__(self, session: SparkSession, write: Callable[[str], object]) -> None:
        self._session: SparkSession | None = session
        self._write = write

    def close(self) -> None:
        """Stop listening. Call it before you stop the session."""
        session, self._session = self._session, None
        if session is not None:
            session.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to show yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._write(describe_progress(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """A query that waits shows nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if event.exception is not None:
            self._write(f"query {str(event.id)[:8]} failed: {explain_query(event.exception)}")


def describe_progress(progress: StreamingQueryProgress) -> str:
    """Return one line about a batch: `orders, batch 3: 1000 rows, 5000 rows/s, at id 1234, 56 ids and 2.1 s behind`."""
    name = progress.name or f"query {str(progress.id)[:8]}"
    rows, seconds = max(progress.numInputRows, 0), max(progress.batchDuration, 0) / 1000
    parts = [f"{rows} rows"]
    if rows and seconds:
        parts.append(f"{rows / seconds:.0f} rows/s")
    positions = read_positions(progress)
    if positions.committed_id is not None:
        parts.append(f"at id {positions.committed_id}")
        behind = "" if positions.seconds_behind is None else f" and {positions.seconds_behind:.1f} s"
        parts.append(f"{positions.lag} ids{behind} behind" if positions.lag else "up to date")
    return f"{name}, batch {progress.batchId}: {', '.join(parts)}"
