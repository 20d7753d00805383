import re
from pathlib import Path

import pytest

import mainstem.testing.history
from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.checker import Unfinished, check_history, find_readings

SOURCE = Path(mainstem.testing.history.__file__).parent
RULE = re.compile(r'(?:Violation|_report)\(\s*"([a-z0-9 -]+)"|rule = "([a-z0-9 -]+)" if .* else "([a-z0-9 -]+)"')


def test_a_correct_history_has_no_violations(story):
    story.append("a", "b")
    story.produce("c", 0)
    story.append("d", end=None)
    story.read()
    story.read(skip=2)
    story.submit("e")
    story.sync()
    story.submit("f")
    story.broadcast("f")
    story.head_of()
    story.append(closes=True)
    story.refuse("stream_closed", "g", next=story.head_of().next, closed=True)
    story.delete()
    story.refuse("stream_not_found", "h")
    story.create()
    story.append("i", if_match=Offset(1, 0))
    assert story.check() == []


def test_a_history_must_end_with_a_reading_of_the_log(story):
    story.finish()
    story.append("a")
    with pytest.raises(Unfinished):
        check_history(story.calls)


def test_a_reading_consists_of_pages_that_follow_each_other(story):
    for message in "abc":
        story.append(message)
    story.finish(next=2, up_to_date=False)
    story.finish(client="other")
    story.finish(after=2)
    story.finish(after=1)
    first, second = find_readings(story.calls)
    assert [page.client for page in first] == ["other"]
    assert [page.after for page in second] == [0, 2]


def test_the_log_of_a_history_may_begin_after_a_committed_id(story):
    for message in "abc":
        story.append(message)
    story.finish(after=1)
    assert find_readings(story.calls) == []
    (reading,) = find_readings(story.calls, after=1)
    assert [page.after for page in reading] == [1]


def test_pages_that_leave_something_out_are_no_reading(story):
    for message in "abc":
        story.append(message)
    story.finish(next=2, up_to_date=False)
    story.finish(after=3)
    assert find_readings(story.calls) == []


def test_a_violation_is_found_in_a_long_history(story):
    """The checker makes a few passes and sorts: a history of this size would take hours if it compared all pairs."""
    for number in range(20_000):
        story.append(f"m{number}")
        if not number % 100:
            story.read(skip=number)
    del story.rows[10_000]
    assert [violation.rule for violation in story.check()] == ["lost message", "gap in a stream"]


def test_every_rule_has_a_test_that_plants_its_violation():
    rules = {name for file in SOURCE.glob("*.py") for found in RULE.findall(file.read_text()) for name in found if name}
    planted = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert len(rules) > 35
    assert not [rule for rule in sorted(rules) if f'"{rule}"' not in planted]
