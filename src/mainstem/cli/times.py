"""Times on the command line."""

from datetime import UTC, datetime, timedelta

import click

from mainstem.timestamps import EPOCH


class Time(click.ParamType[int]):
    """Parses a time into microseconds since 1970. A time without a zone is UTC."""

    name = "TIME"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time; write it like 2026-01-31 or 2026-01-31T12:00:00Z", parameter, context)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (found - EPOCH) // timedelta(microseconds=1)


TIME = Time()
