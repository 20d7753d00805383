"""Times as RFC 3339 text in UTC."""

from datetime import UTC, datetime
from functools import lru_cache


def format_time(us: int) -> str:
    """Format microseconds since 1970 to the millisecond: 2026-05-01T12:00:00.123Z."""
    return _format_milliseconds(us // 1_000)


@lru_cache(64)  # a batch of commits, its replies and its broadcasts fall into the same few milliseconds
def _format_milliseconds(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_time_exactly(us: int) -> str:
    """Format microseconds since 1970 to the microsecond: 2026-05-01T12:00:00.123456Z."""
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{us % 1_000_000:06d}Z"
