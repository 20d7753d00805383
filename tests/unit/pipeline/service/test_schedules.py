from datetime import UTC, datetime

import pytest

from mainstem import limits
from mainstem.pipeline.service.schedules import back_off, parse_cron, parse_every, resume

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC).timestamp()
HOUR = 3_600


def at(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("90s", 90), ("2h", 7_200), ("1d", 86_400), (30, 30), (1.5, 1.5)]
)
def test_durations(text, seconds):
    assert parse_every(text).seconds == seconds


@pytest.mark.parametrize("text", ["", "5", "5 minutes", "m", "-5m", "0s", "999ms", "400d", 0, 1e12])
def test_invalid_durations(text):
    with pytest.raises(ValueError, match="`every` must be"):
        parse_every(text)


def test_every_counts_from_start_to_start_but_never_overlaps():
    every = parse_every("5m")
    assert every.begin(NOON) == NOON
    assert every.follow(NOON, NOON + 10) == NOON + 300
    assert every.follow(NOON, NOON + 900) == NOON + 900


def test_cron_leaves_out_the_times_that_have_passed_during_a_round():
    cron = parse_cron("0 * * * *", "UTC")
    assert cron.begin(NOON + 1) == NOON + HOUR
    assert cron.follow(NOON, NOON + 1) == NOON + HOUR
    assert cron.follow(NOON, NOON + 2.5 * HOUR) == NOON + 3 * HOUR


def test_cron_follows_the_clocks_of_its_time_zone():
    berlin = parse_cron("0 3 * * *", "Europe/Berlin")
    assert berlin.begin(at(2026, 3, 10, 12)) == at(2026, 3, 11, 2)
    assert berlin.begin(at(2026, 7, 10, 12)) == at(2026, 7, 11, 1)


def test_cron_runs_once_in_nights_in_which_clocks_change():
    night = parse_cron("30 2 * * *", "Europe/Berlin")
    # On 29 March 2026 the clocks of Berlin go from 2 to 3: the round begins then.
    assert night.begin(at(2026, 3, 28, 12)) == at(2026, 3, 29, 1)
    assert night.follow(at(2026, 3, 29, 1), at(2026, 3, 29, 1, 1)) == at(2026, 3, 30, 0, 30)
    # On 25 October they go from 3 to 2, and half past two comes twice: only the first counts.
    assert night.begin(at(2026, 10, 24, 12)) == at(2026, 10, 25, 0, 30)
    assert night.follow(at(2026, 10, 25, 0, 30), at(2026, 10, 25, 0, 31)) == at(2026, 10, 26, 1, 30)


@pytest.mark.parametrize("text", ["", "x", "0 3 * *", "61 * * * *", "0 0 31 2 *", "@daily"])
def test_invalid_cron_expressions(text):
    with pytest.raises(ValueError, match="is not a cron expression"):
        parse_cron(text, "UTC")


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/passwd"])
def test_unknown_time_zones(name):
    with pytest.raises(ValueError, match="there is no time zone"):
        parse_cron("0 3 * * *", name)


def test_a_missed_run_happens_once_after_a_restart():
    cron = parse_cron("0 3 * * *", "UTC")
    planned = at(2026, 3, 5, 3)
    assert resume(cron, planned, NOON) == planned  # in the past: due now
    assert cron.follow(NOON, NOON + 60) == at(2026, 3, 11, 3)  # the four others are not repeated


def test_a_run_that_is_not_due_stays_planned():
    assert resume(parse_every("5m"), NOON + 100, NOON) == NOON + 100
    assert resume(parse_cron("0 3 * * *", "UTC"), at(2026, 3, 11, 3), NOON) == at(2026, 3, 11, 3)


def test_a_plan_of_a_wrong_clock_is_corrected():
    assert resume(parse_every("5m"), NOON + 10**9, NOON) == NOON + 300
    assert resume(parse_cron("0 3 * * *", "UTC"), NOON + 10**9, NOON) == at(2026, 3, 11, 3)


def test_pauses_after_failures_double_up_to_a_limit():
    pauses = [back_off(failures) for failures in (1, 2, 3, 4)]
    assert pauses == [limits.ROUND_BACKOFF_S * factor for factor in (1, 2, 4, 8)]
    assert back_off(8) == back_off(10_000) == limits.ROUND_BACKOFF_S_MAX
