"""One round of a job of the service, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import JobFailed, MainstemError
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext, Summary
from mainstem.pipeline.jobs.reporter import JobReporter
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.reports import clean_text
from mainstem.pipeline.service.definition import JobDefinition
from mainstem.pipeline.service.sessions import SparkSessions
from mainstem.pipeline.service.state import LastRound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_ENDED = (
    "Spark has ended during the round: its Java was killed, or its cluster is gone. The service starts it again"
)


class ServiceContext(JobContext):
    """The context of a job that shares its Spark with others."""

    def __init__(
        self,
        server: ServerOptions,
        checkpoint: Path,
        sessions: SparkSessions,
        *,
        master: str | None,
        on_wait: Callable[[str], None],
    ) -> None:
        super().__init__(server, checkpoint, master=master, on_wait=on_wait)
        self._sessions = sessions

    @property
    def spark(self) -> SparkSession:
        """The session of the job, active in the thread of this round."""
        return self._sessions.open(self.checkpoint.name)


class RoundRunner:
    """Runs the rounds of one job, one at a time."""

    def __init__(
        self,
        job: JobDefinition,
        server: ServerOptions,
        checkpoint: Path,
        sessions: SparkSessions,
        *,
        master: str | None,
        warn: Callable[[str], None],
    ) -> None:
        self._job = job
        self._sessions = sessions
        self._context = ServiceContext(
            server, checkpoint, sessions, master=master, on_wait=lambda text: warn(f"{job.name}: {text}")
        )
        self._reporter = JobReporter(server, job.kind, checkpoint, warn)

    def run(self) -> tuple[LastRound, Summary | None]:
        """Run a round. Its failure is part of the result: a job that fails does not stop the others."""
        started_s, begun_s = time.time(), time.monotonic()
        try:
            self._sessions.discard_dead()
            self._context.checkpoint.mkdir(parents=True, exist_ok=True)
            summary = run_once(self._make_and_run, self._context, self._reporter)
        except Exception as error:  # noqa: BLE001 - the line of the round and the report say why
            seconds = round(time.monotonic() - begun_s, 3)
            return LastRound(started_s=started_s, seconds=seconds, error=_describe(error)), None
        return (
            LastRound(
                started_s=started_s,
                seconds=summary.seconds,
                rows=summary.rows,
                committed_id=summary.committed_id,
                lag=summary.lag,
                faults=summary.faults,
            ),
            summary,
        )

    def close(self) -> None:
        """Send the last report, if it still waits."""
        self._reporter.flush()

    def _make_and_run(self, context: JobContext) -> Summary:
        """Make the job for each round, so that it reads its policies and tables as they are now."""
        job = self._job.spec.make_job()
        try:
            return job(context)
        except Exception as error:
            if not isinstance(error, MainstemError) and self._sessions.discard_dead():
                raise JobFailed(SPARK_ENDED) from error
            raise


def _describe(error: Exception) -> str:
    if isinstance(error, MainstemError):
        return clean_text(error.detail)
    return clean_text(f"{type(error).__name__}: {error}")
