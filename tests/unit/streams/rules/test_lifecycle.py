from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadHeader
from mainstem.log.records import TopicId
from mainstem.streams.rules.lifecycle import SECOND_US, expiry_us, is_gone, parse_expires_at, parse_ttl
from mainstem.streams.states import StreamState


def stream(**fields):
    return StreamState(topic=TopicId(1), read_seq=0, content_type="text/plain", tail=0, created_at_us=0, **fields)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("1", 1), ("3600", 3600), (str(limits.TTL_S_MAX),) * 2])
def test_a_ttl_is_a_plain_decimal_number(text, seconds):
    assert parse_ttl(text) == int(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+3600",
        "03600",
        "00",
        "3600.0",
        "3.6e3",
        "1e3",
        "0x10",
        "1_000",
        "1,000",
        " 1",
        "1 ",
        "abc",
        "∞",
        "٣",
        "inf",
        "NaN",
        "1s",
        "9" * 17,
        "9" * 10000,
        str(limits.TTL_S_MAX + 1),
    ],
)
def test_any_other_form_of_ttl_is_refused(text):
    with pytest.raises(BadHeader):
        parse_ttl(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2030-06-01T12:30:45Z", datetime(2030, 6, 1, 12, 30, 45, tzinfo=UTC)),
        ("2030-06-01t12:30:45z", datetime(2030, 6, 1, 12, 30, 45, tzinfo=UTC)),
        ("2030-06-01T12:30:45.5Z", datetime(2030, 6, 1, 12, 30, 45, 500_000, tzinfo=UTC)),
        ("2030-06-01T12:30:45.123456Z", datetime(2030, 6, 1, 12, 30, 45, 123_456, tzinfo=UTC)),
        ("2030-06-01T12:30:45.123456789Z", datetime(2030, 6, 1, 12, 30, 45, 123_456, tzinfo=UTC)),
        ("2030-06-01T12:30:45+02:00", datetime(2030, 6, 1, 10, 30, 45, tzinfo=UTC)),
        ("2030-06-01T12:30:45-05:30", datetime(2030, 6, 1, 18, 0, 45, tzinfo=UTC)),
        ("2028-02-29T00:00:00Z", datetime(2028, 2, 29, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_an_rfc_3339_time(text, time):
    assert parse_expires_at(text) == (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2030",
        "2030-06-01",
        "20300601T123045Z",
        "2030-W22-6T12:30:45Z",
        "2030-06-01T12:30Z",
        "2030-06-01T12:30:45",
        "2030-06-01 12:30:45Z",
        "2030-06-01T12:30:45 Z",
        "2030-06-01T12:30:45,5Z",
        "2030-06-01T12:30:45.Z",
        "2030-06-01T12:30:45+0200",
        "2030-06-01T12:30:45+02",
        "2030-06-01T12:30:45+99:99",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2030-06-01T25:00:00Z",
        "2030-06-01T12:61:00Z",
        "0000-01-01T00:00:00Z",
        "٢٠٣٠-06-01T12:30:45Z",
        "1900000000",
        "2030-06-01T12:30:45Z\n",
        "2030-06-01T12:30:45.0000000000Z",
    ],
)
def test_any_other_form_of_time_is_refused(text):
    with pytest.raises(BadHeader):
        parse_expires_at(text)


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31)))
def test_an_expiry_is_exact_to_the_microsecond(time):
    exact = (time - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert parse_expires_at(time.isoformat() + "Z") == exact


def test_a_stream_that_was_deleted_or_never_existed_is_gone():
    assert is_gone(None, 0, 0)
    assert is_gone(stream(deleted=True), 0, 0)
    assert not is_gone(stream(), 2**60, 0)


def test_an_absolute_expiry_takes_effect_exactly_at_its_time():
    state = stream(expires_at_us=1_000)
    assert not is_gone(state, 999, 0)
    assert is_gone(state, 1_000, 0)


def test_reads_do_not_move_an_absolute_expiry():
    state = stream(expires_at_us=1_000)
    assert expiry_us(state, 999) == 1_000
    assert is_gone(state, 1_000, 999)


def test_a_read_slides_the_ttl():
    state = stream(ttl_s=10, expires_at_us=10 * SECOND_US)
    assert expiry_us(state, 0) == 10 * SECOND_US
    assert expiry_us(state, 5 * SECOND_US) == 15 * SECOND_US
    assert not is_gone(state, 14 * SECOND_US, 5 * SECOND_US)
    assert is_gone(state, 15 * SECOND_US, 5 * SECOND_US)


def test_an_older_read_never_shortens_the_ttl():
    state = stream(ttl_s=10, expires_at_us=30 * SECOND_US)
    assert expiry_us(state, 5 * SECOND_US) == 30 * SECOND_US


def test_a_ttl_of_zero_expires_at_once():
    assert is_gone(stream(ttl_s=0, expires_at_us=7), 7, 0)
