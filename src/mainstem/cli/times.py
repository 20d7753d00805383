"""Times on the command line."""

import click

from mainstem.timestamps import read_time


class Time(click.ParamType[int]):
    """Parses a time into microseconds since 1970. A time without a zone is UTC."""

    name = "TIME"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return read_time(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time; write it like 2026-01-31 or 2026-01-31T12:00:00Z", parameter, context)


TIME = Time()
