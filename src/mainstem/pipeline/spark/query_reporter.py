"""Reports the batches of streaming queries to the server, as pipeline jobs report their rounds.

Spark calls the listener on the thread that serves all listeners of the session, so it only takes notes. Another thread
sends them.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.reports import ReportSender, RoundReport, clean_text, make_job_name, merge_reports
from mainstem.pipeline.spark.errors import explain_query
from mainstem.timestamps import format_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

logger = logging.getLogger(__name__)


def report_queries(
    spark: SparkSession, url: str, *, token: str | None = None, token_file: str | None = None
) -> QueryReporter:
    """Report every batch of the session's streaming queries to the server at `url`, which lists them with its jobs.

    The token, if the server requires one, needs the `admin` claim. The result's `close` ends the reports.
    """
    server = ServerOptions(url.rstrip("/"), None if token_file else token, token_file)
    HttpClient(server).close()  # raises now if the URL is invalid
    reporter = QueryReporter(ReportSender(server, logger.warning))
    reporter.listen(spark)
    return reporter


class QueryReporter(StreamingQueryListener):
    """A listener that reports batches: of each query at most one every few seconds, and always the last."""

    def __init__(self, sender: ReportSender) -> None:
        self._session: SparkSession | None = None
        self._sender = sender
        self._changed = threading.Condition()
        self._queries: dict[str, _Query] = {}
        """By run: a query that is started again is another run."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mainstem-query-reporter", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def listen(self, session: SparkSession) -> None:
        self._session = session
        session.streams.addListener(self)

    def close(self) -> None:
        """Stop listening, and return once the last reports are sent, or after a few seconds.

        Call it before you stop the session.
        """
        session, self._session = self._session, None
        if session is not None:
            active = {str(query.runId) for query in session.streams.active}
            with self._changed:  # Spark reports the end of a query a little later
                self._changed.wait_for(lambda: self._has_ended(active), limits.JOB_REPORT_S_MAX)
            session.streams.removeListener(self)
        self._finish()

    def _has_ended(self, active: set[str]) -> bool:
        """Return whether Spark has reported the end of all queries except the active ones."""
        return all(query.ended for run, query in self._queries.items() if run not in active)

    def _finish(self) -> None:
        atexit.unregister(self._finish)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(limits.JOB_REPORT_S_MAX)

    # Called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._find(event.runId, event.id, event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        query = self._find(progress.runId, progress.id, progress.name)
        if query is None:
            return
        query.batch = progress.batchId
        positions = read_positions(progress)
        query.position = positions.committed_id
        written = progress.sink.numOutputRows
        details: dict[str, Any] = {"output_rows": written} if written is not None and written >= 0 else {}
        if positions.seconds_behind is not None:
            details["seconds_behind"] = positions.seconds_behind
        report = query.describe(
            round=progress.batchId,
            started_at=str(progress.timestamp),
            duration_s=max(progress.batchDuration, 0) / 1000,
            rows=max(progress.numInputRows, 0),
            lag=positions.lag,
            details=details,
        )
        self._note(query, report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Confirm that a query without new data is alive."""
        query = self._find(event.runId, event.id, None)
        if query is not None and query.batch >= 0:
            lag = 0 if query.position is None else None
            report = query.describe(round=query.batch, started_at=str(event.timestamp), duration_s=0.0, lag=lag)
            self._note(query, report)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._find(event.runId, event.id, None)
        if query is None:
            return
        report = None
        if event.exception is not None:
            now = format_time(time.time_ns() // 1000)
            error = clean_text(explain_query(event.exception))
            report = query.describe(round=query.batch + 1, started_at=now, duration_s=0.0, error=error)
        self._note(query, report, ended=True)

    def _find(self, run_id: Any, query_id: Any, name: str | None) -> _Query | None:
        """Return what is known about a run; None if too many queries run at once."""
        run = str(run_id)
        with self._changed:
            if run not in self._queries:
                if len(self._queries) >= limits.QUERIES_REPORTED_MAX:
                    return None
                self._queries[run] = _Query(run, str(query_id), name)
            return self._queries[run]

    def _note(self, query: _Query, report: RoundReport | None, *, ended: bool = False) -> None:
        with self._changed:
            if report is not None:
                query.waiting = merge_reports(query.waiting, report)
            query.ended = ended
            self._changed.notify_all()

    # The thread that sends

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._take_due()
                if due is None:
                    return
            for report in due:
                try:
                    self._sender.send(report)
                except Exception:
                    logger.exception("a report of a streaming query could not be sent")

    def _take_due(self) -> list[RoundReport] | None:
        """Wait until reports may be sent, and return them. Return None once the reporter is closed and all are sent."""
        while True:
            now_s = time.monotonic()
            waiting = [query for query in self._queries.values() if query.waiting is not None]
            ready = [query for query in waiting if self._closed or query.ended or query.next_s <= now_s]
            due = [query.take(now_s) for query in ready]
            self._queries = {
                run: query for run, query in self._queries.items() if not query.ended or query.waiting is not None
            }
            if due:
                return due
            if self._closed:
                return None
            self._changed.wait(min((query.next_s - now_s for query in waiting), default=None))


class _Query:
    """One run of a query, and the report of it that waits to be sent."""

    def __init__(self, run_id: str, query_id: str, name: str | None) -> None:
        self.name = make_job_name(name or "", otherwise=f"query-{query_id[:8]}")
        self.ids = {"query_id": query_id, "run_id": run_id}
        self.batch = -1
        """The number of the last batch; -1 before the first."""
        self.position: int | None = None
        """The committed id that it has reached; None if it does not read the log."""
        self.waiting: RoundReport | None = None
        self.next_s = 0.0
        self.ended = False

    def describe(self, *, details: dict[str, Any] | None = None, **about: Any) -> RoundReport:
        known = self.ids | (details or {})
        return RoundReport(job="query", name=self.name, position=self.position, details=known, **about)

    def take(self, now_s: float) -> RoundReport:
        report, self.waiting = self.waiting, None
        assert report is not None
        self.next_s = now_s + limits.JOB_REPORT_EVERY_S
        return report


class Positions(NamedTuple):
    """How far the sources of `format("mainstem")` of a query have come."""

    committed_id: int | None
    """What all of them have reached; None if the query does not read the log."""
    lag: int = 0
    """How many ids the slowest of them is behind."""
    seconds_behind: float | None = None
    """The age of the oldest message that no batch has yet; None if the source did not report it."""


def read_positions(progress: StreamingQueryProgress) -> Positions:
    """Return how far a query has come in the log."""
    found = [(_read_offset(source.endOffset), _read_offset(source.latestOffset)) for source in progress.sources]
    known = [(end["committed_id"], latest) for end, latest in found if "committed_id" in end]
    if not known:
        return Positions(None)
    seconds = [latest["seconds_behind"] for _, latest in known if "seconds_behind" in latest]
    return Positions(
        min(end for end, _ in known),
        max(max(latest.get("committed_id", 0) - end, 0) for end, latest in known),
        max(seconds, default=None),
    )


def _read_offset(offset: str | None) -> dict[str, Any]:
    """Return an offset of Spark, which is JSON text of the source's own kind; empty if it is not one of ours."""
    try:
        found = msgspec.json.decode(offset or "")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("committed_id"), int) else {}
