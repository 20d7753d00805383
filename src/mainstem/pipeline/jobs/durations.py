"""Durations as people write them: 30s, 1m, 2h, 1d."""

import re

from mainstem.errors import BadOption

UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
DURATION = re.compile(rf"([0-9]{{1,9}})\s*({'|'.join(UNITS)})")
SECONDS = {"milliseconds": 0.001, "seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}


def parse_seconds(text: str) -> float | None:
    """Return a duration in seconds, or None if the text is not one."""
    found = DURATION.fullmatch(text.strip())
    return None if found is None else int(found[1]) * SECONDS[UNITS[found[2]]]


def measure_interval(interval: str) -> int:
    """Return the microseconds of an interval that `parse_interval` has returned."""
    number, unit = interval.split()
    return int(int(number) * SECONDS[unit] * 1_000_000)


def parse_interval(text: str, name: str, *, least: int = 1) -> str:
    """Return a duration as a Spark interval. An error names the option `name`."""
    found = DURATION.fullmatch(text.strip())
    if found is None or int(found[1]) < least:
        raise BadOption(f"{name} must be a number with a unit ({', '.join(UNITS)}), like 30s or 1m, not {text!r}")
    return f"{int(found[1])} {UNITS[found[2]]}"
