"""The lifetime of a stream: sliding TTL, absolute expiry, and when it counts as gone."""

import re

from mainstem import limits
from mainstem.errors import BadHeader, StreamGone, StreamNotFound
from mainstem.streams.states import StreamState
from mainstem.timestamps import parse_time

SECOND_US = 1_000_000
TTL_FORM = re.compile(r"0|[1-9][0-9]{0,15}")


def parse_ttl(text: str) -> int:
    if not TTL_FORM.fullmatch(text):
        raise BadHeader(f"Stream-TTL must be a whole number of seconds in decimal form, not {text[:32]!r}")
    seconds = int(text)
    if seconds > limits.TTL_S_MAX:
        raise BadHeader(f"Stream-TTL must be at most {limits.TTL_S_MAX} seconds, not {seconds}")
    return seconds


def parse_expires_at(text: str) -> int:
    """Return an RFC 3339 time in microseconds since 1970."""
    try:
        return parse_time(text)
    except ValueError:
        raise BadHeader(
            f"Stream-Expires-At must be an RFC 3339 time such as 2030-01-31T12:00:00Z, not {text[:64]!r}"
        ) from None


def expiry_us(state: StreamState, touched_us: int) -> int | None:
    """Return when the stream expires. `touched_us` is the time of a read that is not durable yet, or 0."""
    if state.ttl_s is None:
        return state.expires_at_us
    assert state.expires_at_us is not None
    return max(state.expires_at_us, touched_us + state.ttl_s * SECOND_US) if touched_us else state.expires_at_us


def is_gone(state: StreamState | None, now_us: int, touched_us: int) -> bool:
    """Return whether the stream is deleted, expired, or was never created. A stream that forks still read is not gone:
    its path is in use."""
    if state is None or state.deleted:
        return True
    return not state.forks and not state.soft_deleted and _has_expired(state, now_us, touched_us)


def is_soft_deleted(state: StreamState, now_us: int, touched_us: int) -> bool:
    """Return whether the stream is deleted or expired for clients but kept for its forks."""
    return state.soft_deleted or (state.forks > 0 and _has_expired(state, now_us, touched_us))


def _has_expired(state: StreamState, now_us: int, touched_us: int) -> bool:
    expiry = expiry_us(state, touched_us)
    return expiry is not None and expiry <= now_us


def check_alive(path: str, state: StreamState | None, now_us: int, touched_us: int) -> StreamState:
    """Return the stream if clients can use it. Raise `StreamNotFound` or `StreamGone` otherwise."""
    if state is not None and state.expires_at_us is None and not state.deleted and not state.soft_deleted:
        return state  # the common case: it never expires
    if state is None or is_gone(state, now_us, touched_us):
        raise StreamNotFound(f"there is no stream at {path!r}")
    if is_soft_deleted(state, now_us, touched_us):
        raise StreamGone(f"the stream at {path!r} was deleted; its data is kept only for its forks")
    return state


def window_end(ttl_s: int, now_us: int) -> int:
    return now_us + ttl_s * SECOND_US
