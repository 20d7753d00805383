"""Cursors, which keep a cache from serving the same empty response forever (protocol section 10.1)."""

import re

INTERVAL_S = 20
EPOCH_S = 1_728_432_000  # 2024-10-09T00:00:00Z
JITTER_S_MAX = 3_600
FORM = re.compile(r"[0-9]{1,15}")


def current_interval(now_us: int) -> int:
    return (now_us // 1_000_000 - EPOCH_S) // INTERVAL_S


def is_ahead(client: str | None, now_us: int) -> bool:
    """Return whether the client's cursor has reached the current interval, so that it must be given a later one."""
    return client is not None and FORM.fullmatch(client) is not None and int(client) >= current_interval(now_us)


def next_cursor(client: str | None, now_us: int, jitter_s: int) -> str:
    """Return the current interval, or a value strictly above the client's cursor if that has already reached it.

    `jitter_s` is a random number from 1 to 3600 that the caller draws.
    """
    assert 1 <= jitter_s <= JITTER_S_MAX
    if client is not None and is_ahead(client, now_us):
        return str(int(client) + max(1, jitter_s // INTERVAL_S))
    return str(current_interval(now_us))
