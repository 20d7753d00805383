"""Times as RFC 3339 text in UTC."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

# RFC 3339. Python's parser would also accept week dates, a missing time zone and other forms of ISO 8601.
TIME_FORM = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII)
TIME_PARTS = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-](\d{2}):(\d{2}))", re.ASCII
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_S: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)


def parse_time(text: str) -> int:
    """Return an RFC 3339 time in microseconds since 1970. Raises ValueError for anything else."""
    if not TIME_FORM.fullmatch(text):
        raise ValueError("not an RFC 3339 time")
    return (datetime.fromisoformat(text.upper()) - EPOCH) // timedelta(microseconds=1)


def is_time(text: str) -> bool:
    """Return whether the text is an RFC 3339 time, even one that `parse_time` refuses because a `datetime` cannot hold
    it: with a leap second, any number of fractional digits, or the year 0."""
    found = TIME_PARTS.fullmatch(text)
    if found is None:
        return False
    year, month, day, hour, minute, second, zone_hour, zone_minute = (int(part or 0) for part in found.groups())
    is_date = 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
    return is_date and hour < 24 and minute < 60 and second <= 60 and zone_hour < 24 and zone_minute < 60


def read_time(text: str) -> int:
    """Return a time as people write it, such as 2026-01-31 or 2026-01-31T12:00:00Z, in microseconds since 1970. A time
    without a zone is UTC. Raises ValueError for anything else."""
    found = datetime.fromisoformat(text)
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (found - EPOCH) // timedelta(microseconds=1)


def format_seconds(seconds: float) -> str:
    """Format seconds since 1970, as tokens have them. Times after the year 9999 become its end."""
    return format_time(int(min(seconds, LAST_S) * 1_000_000))


def format_time(us: int) -> str:
    """Format microseconds since 1970 to the millisecond: 2026-05-01T12:00:00.123Z."""
    return _format_milliseconds(us // 1_000)


@lru_cache(64)  # a batch of commits, its replies and its broadcasts fall into the same few milliseconds
def _format_milliseconds(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_time_exactly(us: int) -> str:
    """Format microseconds since 1970 to the microsecond: 2026-05-01T12:00:00.123456Z."""
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{us % 1_000_000:06d}Z"
