import pytest

from mainstem.errors import BadHeader, BadOffset
from mainstem.streams.rules.forks import count_sub_offset, parse_sub_offset
from mainstem.streams.rules.json_mode import parse_body
from tests.support.book import TEXT


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("1", 1), ("42", 42), (str(2**53 - 1), 2**53 - 1)])
def test_a_sub_offset_is_a_plain_number(value, number):
    assert parse_sub_offset(value) == number


@pytest.mark.parametrize("value", ["", "-1", "+1", "01", "1.0", "1e2", "x", "٣", " 1", str(2**53), "9" * 5000])
def test_any_other_sub_offset_is_refused(value):
    with pytest.raises(BadHeader):
        parse_sub_offset(value)


def test_a_sub_offset_counts_bytes_or_in_json_streams_messages():
    assert count_sub_offset(TEXT, b"abc", 2) == 2
    record = parse_body(b'[1, {"a": 2}, "x,y"]').data
    assert [count_sub_offset("application/json", record, n) for n in range(4)] == [0, 2, 11, 17]
    for content_type, data, beyond in ((TEXT, b"abc", 4), ("application/json", record, 4), (TEXT, b"", 1)):
        with pytest.raises(BadOffset):
            count_sub_offset(content_type, data, beyond)
