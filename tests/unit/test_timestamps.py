import pytest

from mainstem.timestamps import format_seconds, format_time, format_time_exactly, is_time, parse_time


@pytest.mark.parametrize(
    ("us", "text", "exact"),
    [
        (0, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000000Z"),
        (1_777_636_800_123_456, "2026-05-01T12:00:00.123Z", "2026-05-01T12:00:00.123456Z"),
        (1_777_636_799_999_999, "2026-05-01T11:59:59.999Z", "2026-05-01T11:59:59.999999Z"),
    ],
)
def test_times_are_in_utc_and_end_with_z(us, text, exact):
    assert (format_time(us), format_time_exactly(us)) == (text, exact)


@pytest.mark.parametrize("us", [0, 1, 1_777_636_800_123_456, -1_000_000])
def test_a_formatted_time_is_parsed_again(us):
    assert parse_time(format_time_exactly(us)) == us


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t00:00:01.5z", 1_500_000),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000_000),
    ],
)
def test_a_time_may_have_a_fraction_and_a_zone(text, us):
    assert parse_time(text) == us
    assert is_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "2016-12-31T23:59:60Z",
        "2016-12-31T18:59:60.5-05:00",
        "2026-05-01T12:00:00.1234567890123Z",
        "0000-02-29T00:00:00Z",
    ],
)
def test_rfc_3339_has_times_that_python_cannot_hold(text):
    assert is_time(text)
    with pytest.raises(ValueError):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "0",
        "1777636800",
        "2026-05-01",
        "2026-05-01T12:00:00",
        "2026-05-01T12:00Z",
        "2026-05-01 12:00:00Z",
        "2026-05-01T12:00:00 02:00",
        "2026-W18-5T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-05-01T25:00:00Z",
        "2026-05-01T12:60:00Z",
        "2026-05-01T12:00:61Z",
        "2026-05-01T12:00:00.Z",
        "2026-00-01T12:00:00Z",
        "2026-05-00T12:00:00Z",
        "9999-12-31T23:59:59-24:00",
        "\u0662026-05-01T12:00:00Z",
        "2026-05-01T12:00:00Z\n",
        "2026-05-01T12:00:00Z" + "0" * 10_000,
    ],
)
def test_anything_but_an_rfc_3339_time_is_refused(text):
    with pytest.raises(ValueError):
        parse_time(text)
    assert not is_time(text)


@pytest.mark.parametrize("text", ["2026-05-01T24:00:00Z", "2026-05-01T12:00:00+00:60"])
def test_rfc_3339_lacks_times_that_some_versions_of_python_read(text):
    assert not is_time(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_777_636_800.5, "2026-05-01T12:00:00.500Z"),
        (1e18, "9999-12-31T23:59:59.000Z"),
        (float("inf"), "9999-12-31T23:59:59.000Z"),
    ],
)
def test_the_expiry_of_a_token_is_formatted_however_late_it_is(seconds, text):
    assert format_seconds(seconds) == text
