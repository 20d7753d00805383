"""The rule of retention: what is pruned of one target."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipeline.jobs.retain.floors import FloorFinder, Record, find_floor
from mainstem.pipeline.jobs.retain.policies import Policy

NOW_US = 1_000_000_000

bounds = st.none() | st.integers(1, 8)
histories = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 12), st.integers(1, 4), st.integers(0, 5)), max_size=12
)


def records_of(history):
    """(gap after the previous id, age in seconds, messages, size) of each record, oldest first; ages may also rise."""
    records, at = [], 0
    for gap, age_s, messages, size in history:
        at += gap
        records.append(Record(at, NOW_US - age_s * 1_000_000, messages, size))
    return records


@given(histories, st.sampled_from(["partition", "stream"]), bounds, bounds, bounds, st.integers(0, 40))
def test_nothing_that_the_policy_keeps_is_pruned(history, kind, age_s, events, size, cap):
    """Check the rule from the other side: by what must stay."""
    policy = Policy(name="p", kind=kind, globs=("**",), max_age_s=age_s, max_events=events, max_bytes=size)
    records = records_of(history)
    floor = find_floor(policy, records, NOW_US, cap)
    gone = [record for record in records if record.committed_id <= floor]
    left = records[len(gone) :]
    assert floor in (0, *(record.committed_id for record in records))
    assert floor <= cap
    if kind == "stream":
        assert left or not records
    for number, record in enumerate(gone):
        tail = records[number:]
        assert (
            not policy.bounded
            or (age_s is not None and record.committed_at_us < NOW_US - age_s * 1_000_000)
            or (events is not None and sum(one.messages for one in tail) > events)
            or (size is not None and sum(one.size for one in tail) > size)
        )
    if left and left[0].committed_id <= cap and not (kind == "stream" and len(left) == 1):
        assert policy.bounded
        assert age_s is None or left[0].committed_at_us >= NOW_US - age_s * 1_000_000
        assert events is None or sum(one.messages for one in left) <= events
        assert size is None or sum(one.size for one in left) <= size


@given(histories, bounds, st.integers(0, 40), st.integers(0, 40))
def test_a_requirement_can_only_keep_more(history, events, cap, more):
    policy = Policy(name="p", kind="partition", globs=("**",), max_events=events)
    records = records_of(history)
    assert find_floor(policy, records, NOW_US, cap) <= find_floor(policy, records, NOW_US, cap + more)


@given(histories, bounds, bounds)
def test_pruning_twice_prunes_no_more(history, events, size):
    policy = Policy(name="p", kind="stream", globs=("**",), max_events=events, max_bytes=size)
    records = records_of(history)
    floor = find_floor(policy, records, NOW_US, 10**6)
    left = [record for record in records if record.committed_id > floor]
    if policy.bounded:
        assert find_floor(policy, left, NOW_US, 10**6) == 0


def test_all_parts_of_a_large_record_are_pruned_together():
    policy = Policy(name="p", kind="stream", globs=("**",), max_events=1)
    finder = FloorFinder(policy, messages=5, size=0, now_us=NOW_US, until=9)
    assert [finder.take(Record(7, NOW_US, 4, 0)), finder.take(Record(7, NOW_US, 1, 0))] == [True, True]
    assert not finder.take(Record(9, NOW_US, 1, 0))
    assert (finder.floor, finder.messages) == (7, 5)
