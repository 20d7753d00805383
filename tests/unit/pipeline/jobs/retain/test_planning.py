"""What retain decides before it reads a row: what to read of a target, or why nothing of it can be pruned."""

import pytest

from mainstem import limits
from mainstem.pipeline.jobs.retain.planning import Bounds, Kept, Work, explain_kept, make_groups, plan
from mainstem.pipeline.jobs.retain.policies import Policy, parse_policies
from mainstem.pipeline.jobs.retain.survey import Surveyed
from mainstem.pipeline.jobs.targets import Target

BOUNDS = Bounds(head=100, now_us=10**9, ages={60: 40}, archived={"lake": 30})


def found(kind="partition", **facts):
    return Surveyed(Target(kind, "a"), **{"policy": 0, "floor": 0, "first": 10, "last": 50, **facts})


def policy(kind="partition", **bounds):
    return Policy(name="p", kind=kind, globs=("**",), **bounds)


@pytest.mark.parametrize(
    ("target", "rule", "reason"),
    [
        (found(first=51), policy(max_events=1), Kept.EMPTY),
        (found(messages=5), policy(max_events=5), Kept.WITHIN),
        (found(size=5), policy(max_bytes=5), Kept.WITHIN),
        (found(first=41), policy(max_age_s=60), Kept.WITHIN),
        (found("stream", first=50, messages=9), policy("stream", max_events=1), Kept.NEWEST),
        (found(), policy(require_snapshot=True), Kept.NO_SNAPSHOT),
        (found(snapshot=9), policy(require_snapshot=True), Kept.SNAPSHOT),
        (found(first=31), policy(require_archive="lake"), Kept.ARCHIVE),
        (found("stream", messages=9, forked=True), policy("stream", max_events=1), Kept.FORKS),
        (found("stream", forked=True, examined=True), policy("stream", max_age_s=60), Kept.FORKS),
    ],
)
def test_a_target_without_prunable_rows_is_not_read(target, rule, reason):
    assert plan(target, rule, BOUNDS) is reason


@pytest.mark.parametrize(
    ("target", "rule", "until"),
    [
        (found(), policy(max_age_s=60), 40),
        (found(messages=9), policy(max_events=1, max_age_s=60), 50),
        (found("stream", messages=9), policy("stream", max_events=1), 49),
        (found(last=300), policy(require_snapshot=False, max_bytes=0), 100),
        (found(snapshot=20), policy(require_snapshot=True), 20),
        (found(messages=9, snapshot=45), policy(max_events=1, require_snapshot=True, require_archive="lake"), 30),
        (found("stream", forked=True), policy("stream", max_age_s=60), 40),
    ],
)
def test_rows_are_read_up_to_the_newest_that_can_be_pruned(target, rule, until):
    if rule.max_bytes is not None:
        target.size = 1
    planned = plan(target, rule, BOUNDS)
    assert isinstance(planned, Work)
    assert (planned.first, planned.until) == (10, until)


def work(kind, name, first=1):
    return Work(Target(kind, name), 0, 0, first, 9, 9, 0, 0, False)


def test_tasks_name_what_they_read_within_the_limits_of_a_request():
    names = [f"p-{number}" for number in range(limits.EVENT_PARTITIONS_MAX + 1)]
    groups = make_groups([work("partition", name) for name in names] + [work("stream", "s", 5)], slots=2)
    assert [len(group.work) for group in groups] == [limits.EVENT_PARTITIONS_MAX, 1, 1]
    assert (groups[2].selection.streams, groups[2].after, groups[2].named) == (("s",), 4, True)
    assert {name for group in groups for name in group.selection.partitions} == set(names)


def test_with_too_many_names_a_task_reads_everything(monkeypatch):
    monkeypatch.setattr(limits, "RETAIN_GROUPS_MAX", 1)
    monkeypatch.setattr(limits, "RETAIN_STREAMS_MAX", 2)
    groups = make_groups([work("stream", f"s{number}") for number in range(5)], slots=2)
    assert [(group.selection.kind, group.selection.streams, len(group.work)) for group in groups] == [
        ("stream", (), 3),
        ("stream", (), 2),
    ]


def test_every_policy_explains_what_it_left():
    policies = parse_policies("""
        [[policy]]
        name = "rooms"
        partitions = "room-*"
        max_events = 3
        [[policy]]
        name = "archived"
        streams = "**"
        max_age = "60s"
        require_archive = "lake"
        [[policy]]
        name = "nobody"
        partitions = "x"
        max_events = 1
    """)
    kept = {(0, Kept.WITHIN): 2, (1, Kept.ARCHIVE): 1, (1, Kept.FORKS): 3}
    assert explain_kept(policies, kept, {0, 1}, BOUNDS) == {
        "rooms": "2 partitions: nothing exceeds max_events = 3",
        "archived": "1 stream: the archive reaches only committed id 30; 3 streams: held by forks",
        "nobody": "matches no partition, or only those that an earlier policy matches",
    }
