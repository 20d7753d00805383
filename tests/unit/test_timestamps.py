import pytest

from mainstem.timestamps import format_time, format_time_exactly


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
