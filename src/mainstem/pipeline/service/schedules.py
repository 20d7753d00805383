"""When a job runs: at fixed intervals, or at the times of a cron expression. Pure: the time is an argument.

All times are in seconds since 1970.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from mainstem import limits
from mainstem.pipeline.jobs.durations import parse_seconds


class Every(NamedTuple):
    """From the start of a round to the start of the next one, but never two rounds at once."""

    seconds: float
    text: str

    def follow(self, started_s: float, now_s: float) -> float:
        """Return when to run after the round that started then."""
        return max(started_s + self.seconds, now_s)

    def begin(self, now_s: float) -> float:
        """Return when to run for the first time."""
        return now_s

    def latest(self, now_s: float) -> float:
        """Return how late the next round can be, if the clock is right."""
        return now_s + self.seconds

    def __str__(self) -> str:
        return f"every {self.text}"


class Cron(NamedTuple):
    """At the times that a cron expression describes, on the clocks of a time zone."""

    expression: str
    timezone: str

    def follow(self, started_s: float, now_s: float) -> float:
        """Return the first time after now: times that have passed meanwhile are left out."""
        return self._next(now_s)

    def begin(self, now_s: float) -> float:
        return self._next(now_s)

    def latest(self, now_s: float) -> float:
        return self._next(now_s)

    def _next(self, now_s: float) -> float:
        return next(CronSim(self.expression, datetime.fromtimestamp(now_s, ZoneInfo(self.timezone)))).timestamp()

    def __str__(self) -> str:
        return f"{self.expression} ({self.timezone})"


Schedule = Every | Cron


def parse_every(value: str | float) -> Every:
    """Return the schedule for `every`: a duration such as 5m, or seconds. Raises ValueError with the reason."""
    seconds = parse_seconds(value) if isinstance(value, str) else float(value)
    if seconds is None:
        raise ValueError("`every` must be a duration, such as 30s, 5m, 2h or 1d")
    if not limits.PIPELINE_EVERY_S_MIN <= seconds <= limits.PIPELINE_EVERY_S_MAX:
        least, most = limits.PIPELINE_EVERY_S_MIN, limits.PIPELINE_EVERY_S_MAX / 86_400
        raise ValueError(f"`every` must be from {least:g} second to {most:g} days")
    return Every(seconds, value.strip() if isinstance(value, str) else f"{seconds:g}s")


def parse_cron(expression: str, timezone: str) -> Cron:
    """Return the schedule for `cron`. Raises ValueError with the reason."""
    check_timezone(timezone)
    try:
        next(CronSim(expression, datetime.fromtimestamp(0, ZoneInfo(timezone))))
    except (CronSimError, StopIteration):
        raise ValueError(
            f"{expression!r} is not a cron expression: give minute, hour, day, month and weekday, such as "
            '"0 3 * * *" for 3 in the morning'
        ) from None
    return Cron(expression, timezone)


def check_timezone(name: str) -> None:
    """Raise ValueError if there is no such time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}: give one such as UTC or Europe/Berlin") from None


def resume(schedule: Schedule, planned_s: float | None, now_s: float) -> float:
    """Return when to run a job after a restart. A round that was missed meanwhile happens once, now.

    A plan that lies further ahead than the schedule allows was made by a clock that was wrong.
    """
    if planned_s is None:
        return schedule.begin(now_s)
    return min(planned_s, schedule.latest(now_s))


def back_off(failures: int) -> float:
    """Return the pause after this many failures in a row."""
    return float(min(limits.ROUND_BACKOFF_S * 2 ** min(failures - 1, 30), limits.ROUND_BACKOFF_S_MAX))
