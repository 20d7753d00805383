import msgspec
import pytest

from mainstem import limits
from mainstem.errors import BadPipelineFile
from mainstem.pipeline.jobs.specs.audit import AuditSpec
from mainstem.pipeline.service.definition import JobDefinition
from mainstem.pipeline.service.scheduler import Scheduler
from mainstem.pipeline.service.schedules import parse_cron, parse_every
from mainstem.pipeline.service.state import LastRound
from mainstem.testing.clock import FakeClock


def define(name: str, every: str = "10s") -> JobDefinition:
    return JobDefinition(name, "audit", AuditSpec(), parse_every(every))


def done(now_s: float, committed_id: int = 7) -> LastRound:
    return LastRound(started_s=now_s, seconds=1.0, rows=3, committed_id=committed_id, lag=0)


def failed(now_s: float) -> LastRound:
    return LastRound(started_s=now_s, seconds=1.0, error="no reason")


def test_jobs_run_in_turn():
    jobs = Scheduler([define("a"), define("b"), define("c")], {}, 1, 100.0)
    assert jobs.take_due(100.0) == ["a"]
    assert jobs.take_due(100.0) == []
    assert jobs.wait_s(100.0) == limits.SERVICE_WAIT_S_MAX
    jobs.finish("a", done(100.0), 101.0)
    assert jobs.take_due(101.0) == ["b"]
    jobs.finish("b", done(101.0), 102.0)
    assert jobs.take_due(102.0) == ["c"]
    jobs.finish("c", done(102.0), 103.0)
    assert jobs.take_due(103.0) == []
    assert jobs.wait_s(103.0) == 7.0
    assert jobs.take_due(110.0) == ["a"]


def test_the_job_that_has_waited_longest_is_first():
    jobs = Scheduler([define("often", "1s"), define("rare", "5s")], {}, 1, 0.0)
    order = []
    now_s = 0.0
    while now_s < 12:
        for name in jobs.take_due(now_s):
            order.append(name)
            now_s += 2
            jobs.finish(name, done(now_s - 2), now_s)
        now_s += jobs.wait_s(now_s)
    assert order.count("rare") >= 2
    assert order[:2] == ["often", "rare"]


def test_jobs_run_side_by_side_up_to_the_limit():
    jobs = Scheduler([define("a"), define("b"), define("c")], {}, 2, 0.0)
    assert jobs.take_due(0.0) == ["a", "b"]
    assert jobs.running == {"a", "b"}
    assert jobs.states["a"].running_s == 0.0
    jobs.finish("b", done(0.0), 1.0)
    assert jobs.take_due(1.0) == ["c"]


def test_a_failing_job_backs_off_and_its_success_ends_that():
    jobs = Scheduler([define("a", "1s"), define("good", "1s")], {}, 2, 0.0)
    now_s, pauses = 0.0, []
    for _ in range(3):
        assert "a" in jobs.take_due(now_s)
        state = jobs.finish("a", failed(now_s), now_s)
        pauses.append(state.next_s - now_s)
        now_s = state.next_s
        if "good" in jobs.running:
            assert jobs.finish("good", done(now_s), now_s).failures == 0
    assert pauses == [5.0, 10.0, 20.0]
    assert jobs.states["a"].failures == 3
    assert jobs.states["a"].committed_id is None
    jobs.take_due(now_s)
    state = jobs.finish("a", done(now_s), now_s + 0.5)
    assert (state.failures, state.committed_id, state.next_s) == (0, 7, now_s + 1)


def test_a_failure_keeps_the_position_of_the_last_success():
    jobs = Scheduler([define("a")], {}, 1, 0.0)
    jobs.take_due(0.0)
    jobs.finish("a", done(0.0, 42), 1.0)
    jobs.take_due(10.0)
    state = jobs.finish("a", failed(10.0), 11.0)
    assert (state.committed_id, state.success_s, state.rounds) == (42, 1.0, 2)
    assert state.last is not None
    assert state.last.error == "no reason"


def test_faults_are_not_failures():
    jobs = Scheduler([define("a")], {}, 1, 0.0)
    jobs.take_due(0.0)
    state = jobs.finish("a", msgspec.structs.replace(done(0.0), faults=3), 1.0)
    assert (state.failures, state.next_s) == (0, 10.0)


def test_a_restart_continues_the_plan_and_repeats_an_interrupted_round():
    before = Scheduler([define("a", "1d"), define("b", "1d")], {}, 1, 0.0)
    before.take_due(0.0)
    before.finish("a", done(0.0), 1.0)
    assert before.take_due(1.0) == ["b"]  # and then the service is killed
    after = Scheduler([define("a", "1d"), define("b", "1d")], before.states, 1, 60.0)
    assert after.running == frozenset()
    assert after.take_due(60.0) == ["b"]
    assert after.states["a"].next_s == 86_400
    assert after.states["a"].rounds == 1


def test_another_schedule_makes_another_plan():
    now_s = FakeClock()() / 1e6
    before = Scheduler([define("a", "1d")], {}, 1, now_s)
    before.take_due(now_s)
    before.finish("a", done(now_s), now_s + 1)
    assert Scheduler([define("a", "1m")], before.states, 1, now_s + 2).states["a"].next_s == now_s + 60
    cron = JobDefinition("a", "audit", AuditSpec(), parse_cron("0 * * * *", "UTC"))
    assert Scheduler([cron], before.states, 1, now_s + 2).states["a"].next_s % 3_600 == 0


def test_a_name_keeps_its_kind():
    before = Scheduler([define("a")], {}, 1, 0.0)
    other = JobDefinition("a", "archive", AuditSpec(), parse_every("1m"))
    with pytest.raises(BadPipelineFile, match=r"the job a was .* audit before, and its kind is archive now"):
        Scheduler([other], before.states, 1, 0.0)
