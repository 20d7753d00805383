"""Prints the summary of a round: as JSON with raw values, or as lines for people."""

from collections.abc import Mapping
from typing import Any

from mainstem.cli.output import write_json, write_line, write_rows

UNITS = ("kB", "MB", "GB", "TB", "PB")


def write_summary(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary. People do not see what is unknown or empty, and get lists of objects as tables below."""
    if as_json:
        write_json(summary)
        return
    facts = {name: value for name, value in summary.items() if _is_shown(name, value)}
    tables = {name: value for name, value in facts.items() if _is_table(value)}
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if name in tables:
            continue
        for number, text in enumerate(_lines(name, value)):
            label = "" if number else name.replace("_", " ")
            write_line(f"{label:{width}}  {text}")
    for rows in tables.values():
        write_line("")
        header = [name.replace("_", " ") for name in rows[0]]
        write_rows([header, *([show_value(name, value) for name, value in row.items()] for row in rows)])


def show_value(name: str, value: Any) -> str:
    """Return a value as people read it. A number whose name ends in "bytes" gets a unit in addition."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,} ({show_size(value)})" if name.endswith("bytes") and value >= 1000 else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return str(value)


def show_size(size: int) -> str:
    """Return a number of bytes with a decimal unit, as disks and networks are measured."""
    value, number = size / 1000, 0
    while value >= 999.95 and number < len(UNITS) - 1:
        value, number = value / 1000, number + 1
    return f"{value:.1f} {UNITS[number]}"


def _is_shown(name: str, value: Any) -> bool:
    return value is not None and value != {} and value != [] and (name != "dry_run" or value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], Mapping)


def _lines(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}: {show_value(name, inner)}" for key, inner in value.items()]
    if isinstance(value, list):
        return [show_value(name, one) for one in value]
    return [show_value(name, value)]
