"""The service: its main thread waits for times, for rounds that end, and for signals. Rounds run in threads."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NamedTuple

import msgspec

from mainstem.metrics.pipeline import PipelineMetrics
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import Summary
from mainstem.pipeline.service.definition import Definition, Endpoint, JobDefinition
from mainstem.pipeline.service.metrics_listener import serve_metrics
from mainstem.pipeline.service.rounds import RoundRunner
from mainstem.pipeline.service.scheduler import Scheduler
from mainstem.pipeline.service.sessions import SparkSessions
from mainstem.pipeline.service.state import JobState, LastRound, StateDirectory


class RoundEnd(NamedTuple):
    """A round that has ended, for the line about it."""

    job: JobDefinition
    state: JobState
    summary: Summary | None
    """None if the round has failed."""

    def as_facts(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        last = self.state.last
        assert last is not None
        own = msgspec.to_builtins(self.summary) if self.summary is not None else {"seconds": last.seconds}
        common = {"name": self.job.name, "job": self.job.kind, "round": self.state.rounds, "started_s": last.started_s}
        return common | own | {"error": last.error, "failures": self.state.failures, "next_s": self.state.next_s}


class _Ended(NamedTuple):
    name: str
    last: LastRound
    summary: Summary | None


class _Stop(NamedTuple):
    """A signal asks the service to stop."""


class _SparkStarted(NamedTuple):
    """A round has started Spark."""


class Service:
    """Runs the jobs of a definition until a signal stops it."""

    def __init__(
        self,
        definition: Definition,
        server: ServerOptions,
        *,
        show: Callable[[RoundEnd], None],
        warn: Callable[[str], None],
        on_ready: Callable[[Endpoint | None], None],
    ) -> None:
        """`show` gets every round that has ended, `warn` a text for people, `on_ready` the address of the metrics."""
        self._definition = definition
        self._state = StateDirectory(definition.state)
        self._show = show
        self._on_ready = on_ready
        self._events: SimpleQueue[_Ended | _Stop | _SparkStarted] = SimpleQueue()
        """A `SimpleQueue`, since handlers of signals may put into it."""
        self._jobs = {job.name: job for job in definition.jobs}
        self._metrics = PipelineMetrics()
        self._sessions = SparkSessions(
            definition.spark,
            definition.state / "spark",
            definition.parallel,
            on_start=lambda: self._events.put(_SparkStarted()),
        )
        self._runners = {
            job.name: RoundRunner(
                job,
                server,
                self._state.checkpoint(job.name),
                self._sessions,
                master=definition.spark.master,
                warn=warn,
            )
            for job in definition.jobs
        }

    def run(self) -> None:
        """Run until SIGINT or SIGTERM. The rounds that run then are finished first, unless a second signal arrives."""
        with self._state.lock(), serve_metrics(self._metrics, self._definition.metrics) as endpoint:
            known = {name: state for name in self._jobs if (state := self._state.read(name)) is not None}
            scheduler = Scheduler(self._definition.jobs, known, self._definition.parallel, time.time())
            for name, state in scheduler.states.items():
                self._keep(name, state)
            with self._handle_signals():
                self._on_ready(endpoint)
                self._schedule(scheduler)
                for runner in self._runners.values():
                    runner.close()
                self._sessions.stop()  # a second signal does not wait for this: Java ends together with this process

    def _schedule(self, scheduler: Scheduler) -> None:
        stopping = False
        while not stopping or scheduler.running:
            if not stopping:
                for name in scheduler.take_due(time.time()):
                    self._keep(name, scheduler.states[name])
                    self._start(name)
            try:
                event = self._events.get(timeout=None if stopping else scheduler.wait_s(time.time()))
            except Empty:
                continue
            match event:
                case _Stop():
                    stopping = True
                case _SparkStarted():
                    self._metrics.spark_starts.of().add()
                case _Ended(name, last, summary):
                    state = scheduler.finish(name, last, time.time())
                    self._keep(name, state)
                    self._count(name, last)
                    self._show(RoundEnd(self._jobs[name], state, summary))

    def _start(self, name: str) -> None:
        def run() -> None:
            last, summary = self._runners[name].run()
            self._events.put(_Ended(name, last, summary))

        # A daemon, so that a second signal need not wait for it. Every job may be killed at any time.
        threading.Thread(target=run, name=f"mainstem-round-{name}", daemon=True).start()

    def _keep(self, name: str, state: JobState) -> None:
        """Store the state of a job, and show it in the metrics."""
        self._state.write(name, state)
        labels = (self._jobs[name].kind, name)
        self._metrics.running.of(*labels).value = int(state.running_s is not None)
        self._metrics.next_time.of(*labels).value = state.next_s
        self._metrics.failures.of(*labels).value = state.failures
        self._metrics.success_time.of(*labels).value = state.success_s or 0

    def _count(self, name: str, last: LastRound) -> None:
        labels = (self._jobs[name].kind, name)
        outcome = "failed" if last.error is not None else "faulty" if last.faults else "done"
        self._metrics.rounds.of(*labels, outcome).add()
        self._metrics.seconds.of(*labels).observe(last.seconds)
        if last.error is None:
            self._metrics.rows.of(*labels).add(last.rows)
            self._metrics.lag.of(*labels).value = last.lag or 0
            self._metrics.faults.of(*labels).value = last.faults

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        def ask_to_stop(number: int, frame: FrameType | None) -> None:
            self._events.put(_Stop())
            for each, handler in before.items():  # a second signal does not wait for the rounds
                signal.signal(each, handler)

        before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
