from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.streams.rules.cursors import JITTER_S_MAX, current_interval, is_ahead, next_cursor

EPOCH_US = int(datetime(2024, 10, 9, tzinfo=UTC).timestamp()) * 1_000_000
times = st.integers(EPOCH_US, EPOCH_US + 10**16)
jitters = st.integers(1, JITTER_S_MAX)


@pytest.mark.parametrize(("after_s", "interval"), [(0, 0), (19.999999, 0), (20, 1), (39.9, 1), (86_400, 4320)])
def test_an_interval_is_twenty_seconds_counted_from_the_epoch_of_the_protocol(after_s, interval):
    assert current_interval(EPOCH_US + round(after_s * 1_000_000)) == interval


@given(times, jitters)
def test_without_a_cursor_a_client_gets_the_current_interval(now_us, jitter_s):
    assert next_cursor(None, now_us, jitter_s) == str(current_interval(now_us))


@given(times, jitters, st.integers(1, 10**6))
def test_a_client_that_is_behind_gets_the_current_interval(now_us, jitter_s, behind):
    client = max(0, current_interval(now_us) - behind)
    if client < current_interval(now_us):
        assert next_cursor(str(client), now_us, jitter_s) == str(current_interval(now_us))


@given(times, jitters, st.integers(0, 10**6))
def test_a_client_that_is_not_behind_gets_a_cursor_at_most_an_hour_greater(now_us, jitter_s, ahead):
    client = current_interval(now_us) + ahead
    assert client < int(next_cursor(str(client), now_us, jitter_s)) <= client + JITTER_S_MAX // 20


@given(times, st.lists(jitters, min_size=1, max_size=20))
def test_a_client_that_echoes_its_cursor_never_sees_the_same_one_twice_in_an_interval(now_us, draws):
    seen = [next_cursor(None, now_us, 1)]
    for jitter_s in draws:
        seen.append(next_cursor(seen[-1], now_us, jitter_s))
    assert seen == sorted(set(seen), key=int)


@pytest.mark.parametrize("client", ["", "abc", "-5", "1.5", "1e9", "٩٩", "9" * 16, "9" * 5_000, " 1"])
def test_a_malformed_cursor_is_ignored(client):
    now_us = EPOCH_US + 10**12
    assert not is_ahead(client, now_us)
    assert next_cursor(client, now_us, 1) == str(current_interval(now_us))
