"""Decides which job runs next, and what a round changes about a job. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mainstem import limits
from mainstem.errors import BadPipelineFile
from mainstem.pipeline.service.definition import JobDefinition
from mainstem.pipeline.service.schedules import back_off, resume
from mainstem.pipeline.service.state import JobState, LastRound


class Scheduler:
    """The states of all jobs of a service. At most `parallel` of them run at once, each in one round at a time."""

    def __init__(
        self, jobs: Iterable[JobDefinition], known: Mapping[str, JobState], parallel: int, now_s: float
    ) -> None:
        """`known` has the states that an earlier service has left."""
        self._jobs = {job.name: job for job in jobs}
        self._parallel = parallel
        self._running: set[str] = set()
        self.states = {name: plan_first(job, known.get(name), now_s) for name, job in self._jobs.items()}

    @property
    def running(self) -> frozenset[str]:
        return frozenset(self._running)

    def take_due(self, now_s: float) -> list[str]:
        """Return the jobs to start now, the one that has waited longest first, and count them as running."""
        waiting = sorted((state.next_s, name) for name, state in self.states.items() if name not in self._running)
        free = self._parallel - len(self._running)
        due = [name for next_s, name in waiting if next_s <= now_s][:free]
        for name in due:
            self._running.add(name)
            self.states[name] = msgspec.structs.replace(self.states[name], running_s=now_s)
        return due

    def wait_s(self, now_s: float) -> float:
        """Return how long nothing is to be done unless a round ends. It is bounded, since clocks may step."""
        if len(self._running) >= self._parallel:
            return limits.SERVICE_WAIT_S_MAX
        waiting = [state.next_s for name, state in self.states.items() if name not in self._running]
        return max(0.0, min([limits.SERVICE_WAIT_S_MAX, *(next_s - now_s for next_s in waiting)]))

    def finish(self, name: str, last: LastRound, now_s: float) -> JobState:
        """Return the state of a job after a round: when it runs again, and what is known of it."""
        before = self.states[name]
        failures = before.failures + 1 if last.error is not None else 0
        follow_s = self._jobs[name].schedule.follow(last.started_s, now_s)
        self._running.discard(name)
        self.states[name] = msgspec.structs.replace(
            before,
            next_s=now_s + back_off(failures) if failures else follow_s,
            running_s=None,
            rounds=before.rounds + 1,
            failures=failures,
            committed_id=before.committed_id if failures else last.committed_id,
            success_s=before.success_s if failures else now_s,
            last=last,
        )
        return self.states[name]


def plan_first(job: JobDefinition, known: JobState | None, now_s: float) -> JobState:
    """Return the state in which a service starts with a job."""
    schedule = str(job.schedule)
    if known is None:
        return JobState(job=job.kind, schedule=schedule, next_s=job.schedule.begin(now_s))
    if known.job != job.kind:
        raise BadPipelineFile(
            f"the job {job.name} was a job of the kind {known.job} before, and its kind is {job.kind} now: give it "
            "another name"
        )
    if known.schedule == schedule:
        next_s = resume(job.schedule, known.next_s, now_s)
    elif known.last is not None and known.running_s is None:
        next_s = job.schedule.follow(known.last.started_s, now_s)
    else:
        next_s = job.schedule.begin(now_s)
    return msgspec.structs.replace(known, schedule=schedule, next_s=next_s, running_s=None)
