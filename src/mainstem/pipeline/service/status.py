"""What is known about the jobs of a service, whether it runs or not: from its state directory, and from the server."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.log_reader import read_head
from mainstem.pipeline.service.definition import Definition, JobDefinition
from mainstem.pipeline.service.scheduler import plan_first
from mainstem.pipeline.service.state import JobState, StateDirectory
from mainstem.timestamps import format_seconds


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Times are RFC 3339 texts."""

    name: str
    job: str
    state: str
    """running, waiting, failing (the last round failed), stopped, or interrupted (killed during a round)."""
    schedule: str
    next_run: str
    rounds: int
    last_round: str | None = None
    """When the last round started."""
    seconds: float | None = None
    rows: int | None = None
    committed_id: int | None = None
    """The position of the last round that did not fail."""
    lag: int | None = None
    """How far that is from the head now, or if the server does not answer, from the head when the round ended."""
    faults: int | None = None
    failures: int = 0
    error: str | None = None


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    state_directory: str
    running: bool
    pid: int | None
    url: str
    head: int | None
    """The head of the log; None if the server did not answer at once."""
    jobs: list[JobStatus]

    def as_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = msgspec.to_builtins(self)
        return facts


def read_status(definition: Definition, server: ServerOptions) -> ServiceStatus:
    directory = StateDirectory(definition.state)
    pid = directory.find_holder()
    head = _ask_head(server)
    now_s = time.time()
    return ServiceStatus(
        file=str(definition.file),
        state_directory=str(definition.state),
        running=pid is not None,
        pid=pid,
        url=server.url,
        head=head,
        jobs=[
            describe_job(job, directory.read(job.name), running=pid is not None, head=head, now_s=now_s)
            for job in definition.jobs
        ],
    )


def describe_job(
    job: JobDefinition, known: JobState | None, *, running: bool, head: int | None, now_s: float
) -> JobStatus:
    """Return what is known about a job. A job that has never run is planned as a service would plan it now."""
    state = known or plan_first(job, None, now_s)
    last = state.last
    lag = last.lag if last is not None else None
    if head is not None and state.committed_id is not None:
        lag = max(0, head - state.committed_id)
    return JobStatus(
        name=job.name,
        job=job.kind,
        state=_name_state(state, running=running),
        schedule=str(job.schedule),
        next_run=format_seconds(state.next_s),
        rounds=state.rounds,
        last_round=None if last is None else format_seconds(last.started_s),
        seconds=None if last is None else last.seconds,
        rows=None if last is None else last.rows,
        committed_id=state.committed_id,
        lag=lag,
        faults=None if last is None else last.faults,
        failures=state.failures,
        error=None if last is None else last.error,
    )


def _name_state(state: JobState, *, running: bool) -> str:
    if state.running_s is not None:
        return "running" if running else "interrupted"
    if not running:
        return "stopped"
    return "failing" if state.failures else "waiting"


def _ask_head(server: ServerOptions) -> int | None:
    try:
        with HttpClient(replace(server, retry_s=0), timeout_s=limits.STATUS_HEAD_S_MAX) as client:
            return read_head(client).head
    except MainstemError:
        return None  # the status says so: `head` is missing
