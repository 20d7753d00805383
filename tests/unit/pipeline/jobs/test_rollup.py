"""When the clock of the server closes the windows of a quiet log."""

import pytest

from mainstem import limits
from mainstem.pipeline.jobs.durations import measure_interval
from mainstem.pipeline.jobs.rollup import Openness, Windows

S = 1_000_000
WINDOWS = Windows("60 seconds", "10 seconds")
LAG = int(limits.ROLLUP_IN_FLIGHT_S * S)


@pytest.mark.parametrize(
    ("text", "us"), [("5 milliseconds", 5_000), ("0 seconds", 0), ("2 hours", 7_200 * S), ("1 days", 86_400 * S)]
)
def test_intervals_have_a_length(text, us):
    assert measure_interval(text) == us


@pytest.mark.parametrize(("now_s", "due"), [(129, False), (130, True), (500, True)])
def test_by_commit_time_a_window_closes_when_the_clock_has_passed_its_end_by_the_lateness(now_s, due):
    """The watermark is in the window from 60 to 120 s."""
    now_us = now_s * S + LAG
    openness = Openness(counted_us=0, counts=1, watermark_us=65 * S)
    assert WINDOWS.find_clock(now_us, openness, of_events=False) == (now_s * S if due else None)


@pytest.mark.parametrize(("passed_s", "due"), [(54, False), (55, True)])
def test_by_event_time_the_clock_continues_from_the_newest_event(passed_s, due):
    """The newest event is at 75 s, so its window ends at 120 s, and is over at 130 s."""
    counted_us = 10**15
    openness = Openness(counted_us, counts=1, watermark_us=65 * S)
    clock_us = WINDOWS.find_clock(counted_us + passed_s * S + LAG, openness, of_events=True)
    assert clock_us == (130 * S if due else None)


def test_nothing_happens_without_open_windows():
    assert WINDOWS.find_clock(10**15, Openness(0, counts=0, watermark_us=1), of_events=False) is None


def test_open_windows_are_assumed_until_a_round_has_ended():
    assert WINDOWS.find_clock(10**15, Openness(10**15), of_events=False) == 10**15 - LAG
