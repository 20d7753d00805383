import pytest

from mainstem.errors import BadHeader
from mainstem.log.records import Outline, TopicId
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.retention import find_surplus, format_retention, parse_retention
from mainstem.streams.states import Retention, StreamState
from tests.support.book import TEXT


@pytest.mark.parametrize(
    ("header", "retention"),
    [
        ("max-age=3600", Retention(max_age_s=3600)),
        ("max-bytes=1", Retention(max_bytes=1)),
        ("max-messages=10", Retention(max_messages=10)),
        ("max-age=1, max-bytes=2, max-messages=3", Retention(1, 2, 3)),
        (" max-messages=3 ,max-age=1", Retention(1, None, 3)),
    ],
)
def test_a_retention_is_a_list_of_limits(header, retention):
    assert parse_retention(header) == retention
    assert parse_retention(format_retention(retention)) == retention


@pytest.mark.parametrize(
    "header",
    [
        "",
        ",",
        "max-age",
        "max-age=",
        "max-age=0",
        "max-age=-1",
        "max-age=01",
        "max-age=1.5",
        "max-age = 1",
        "MAX-AGE=1",
        "max-age=1,max-age=1",
        "max-age=1,",
        "max-years=1",
        "max-bytes=9007199254740992",
        "max-age=9007199254740991",
    ],
)
def test_any_other_retention_is_refused(header):
    with pytest.raises(BadHeader):
        parse_retention(header)


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (Retention(max_bytes=50), 0),
        (Retention(max_bytes=49), 1),
        (Retention(max_bytes=20), 3),
        (Retention(max_bytes=1), 4),
        (Retention(max_messages=5), 0),
        (Retention(max_messages=2), 3),
        (Retention(max_age_s=4), 0),
        (Retention(max_age_s=3), 1),
        (Retention(max_age_s=1), 3),
        (Retention(max_age_s=1, max_bytes=1000), 3),
        (Retention(max_age_s=1000, max_messages=3), 2),
    ],
)
def test_what_a_bound_does_not_keep_is_surplus_but_never_the_newest(retention, gone):
    outlines = [Outline(10 * n, 10 * n + 10, 1, n * SECOND_US) for n in range(5)]  # one second apart
    state = StreamState(TopicId(1), 0, TEXT, tail=50, created_at_us=0, retention=retention, messages=5)
    assert list(find_surplus(state, outlines, 4 * SECOND_US)) == outlines[:gone]
