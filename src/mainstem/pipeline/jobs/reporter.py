"""Reports the rounds of a job to the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError, RequestRefused, ServerUnreachable
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import Summary
from mainstem.pipeline.reports import ReportSender, RoundReport, clean_text, make_job_name, merge_reports
from mainstem.timestamps import format_time

COMMON = frozenset([*Summary.__struct_fields__, "bytes", "dry_run"])
"""The fields of a summary that a report has itself, or does not need."""


class JobReporter:
    """Reports rounds of one job: failed ones and faulty ones at once, the others every few seconds."""

    def __init__(self, server: ServerOptions, job: str, checkpoint: Path, warn: Callable[[str], None]) -> None:
        """The job reports under the name of its checkpoint. `warn` shows a message to people."""
        self._sender = ReportSender(server, warn)
        self._job = job
        self._name = make_job_name(checkpoint.resolve().name, otherwise=job)
        self._sent_s: float | None = None
        self._waiting: RoundReport | None = None

    def report(self, begun_us: int, summary: Summary, details: dict[str, Any]) -> None:
        """Report a round that has ended. If the last report was a moment ago, it is sent with that of a later round, or
        by `flush`."""
        report = RoundReport(
            job=self._job,
            name=self._name,
            started_at=format_time(begun_us),
            duration_s=summary.seconds,
            rows=summary.rows,
            bytes=getattr(summary, "bytes", 0),
            position=summary.committed_id,
            lag=summary.lag,
            faults=summary.faults,
            details=_count_details(summary) | details,
        )
        self._waiting = merge_reports(self._waiting, report)
        if summary.faults or self._sent_s is None or time.monotonic() - self._sent_s >= limits.JOB_REPORT_EVERY_S:
            self.flush()

    def report_failure(self, begun_us: int, seconds: float, error: Exception) -> None:
        """Report a round that has failed, unless the reason is that the server does not answer, or not to us."""
        if isinstance(error, ServerUnreachable):
            return
        if isinstance(error, RequestRefused) and error.facts.get("refused") in (401, 403):
            return
        text = error.detail if isinstance(error, MainstemError) else str(error)
        report = RoundReport(
            job=self._job,
            name=self._name,
            started_at=format_time(begun_us),
            duration_s=round(seconds, 3),
            error=clean_text(text or type(error).__name__),
        )
        self._waiting = merge_reports(self._waiting, report)
        self.flush()

    def flush(self) -> None:
        """Send the report that waits, if there is one."""
        report, self._waiting = self._waiting, None
        if report is not None:
            self._sender.send(report)
            self._sent_s = time.monotonic()


def _count_details(summary: Summary) -> dict[str, Any]:
    """Return the numbers that only this kind of job has. Texts may name secrets, so they are left out."""
    own = {name: value for name, value in msgspec.to_builtins(summary).items() if name not in COMMON}
    return {name: value for name, value in own.items() if _is_count(value)}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, dict) and all(isinstance(n, int) for n in value.values()))
