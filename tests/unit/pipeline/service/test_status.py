import msgspec
import pytest

from mainstem.pipeline.jobs.specs.audit import AuditSpec
from mainstem.pipeline.service.definition import JobDefinition
from mainstem.pipeline.service.schedules import parse_every
from mainstem.pipeline.service.state import JobState, LastRound
from mainstem.pipeline.service.status import describe_job

JOB = JobDefinition("check", "audit", AuditSpec(), parse_every("5m"))
DONE = LastRound(started_s=1_000.0, seconds=2.0, rows=3, committed_id=40, lag=1)
STATE = JobState(
    job="audit", schedule="every 5m", next_s=1_300.0, rounds=1, committed_id=40, success_s=1_002.0, last=DONE
)


def describe(state: JobState | None = STATE, *, running: bool = True, head: int | None = None):
    return describe_job(JOB, state, running=running, head=head, now_s=1_100.0)


def test_the_lag_is_that_of_now_if_the_server_answers():
    assert describe(head=55).lag == 15
    assert describe(head=None).lag == 1
    assert describe(head=39).lag == 0


def test_a_job_that_has_never_run():
    found = describe(None, head=5)
    assert (found.rounds, found.last_round, found.lag, found.next_run) == (0, None, None, "1970-01-01T00:18:20.000Z")


@pytest.mark.parametrize(
    ("changes", "running", "state"),
    [
        ({}, True, "waiting"),
        ({}, False, "stopped"),
        ({"running_s": 1_099.0}, True, "running"),
        ({"running_s": 1_099.0}, False, "interrupted"),
        ({"failures": 2}, True, "failing"),
        ({"failures": 2, "running_s": 1_099.0}, True, "running"),
    ],
)
def test_states(changes, running, state):
    assert describe(msgspec.structs.replace(STATE, **changes), running=running).state == state
