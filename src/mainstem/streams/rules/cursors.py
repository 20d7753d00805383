"""Cursors, so that a cache never serves one empty answer for ever (protocol section 10.1)."""

import re

INTERVAL_S = 20
EPOCH_S = 1_728_432_000  # 2024-10-09T00:00:00Z
JITTER_S_MAX = 3_600
FORM = re.compile(r"[0-9]{1,15}")


def current_interval(now_us: int) -> int:
    return (now_us // 1_000_000 - EPOCH_S) // INTERVAL_S


def is_ahead(client: str | None, now_us: int) -> bool:
    """Whether the client's own cursor has caught up with the clock, so that it needs one of its own."""
    return client is not None and FORM.fullmatch(client) is not None and int(client) >= current_interval(now_us)


def next_cursor(client: str | None, now_us: int, jitter_s: int) -> str:
    """The present interval, or strictly more than the client's cursor where that is not behind.

    `jitter_s` is 1 to 3600, drawn by the caller.
    """
    assert 1 <= jitter_s <= JITTER_S_MAX
    if client is not None and is_ahead(client, now_us):
        return str(int(client) + max(1, jitter_s // INTERVAL_S))
    return str(current_interval(now_us))
