"""Prints the summary of a round: as JSON with raw values, or as lines for people."""

from collections.abc import Mapping
from typing import Any

from mainstem.cli.output import show_fact, write_facts, write_json, write_line, write_table


def write_summary(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary. People do not see what is unknown or empty, and get lists of objects as tables below."""
    if as_json:
        write_json(summary)
        return
    shown = {name: value for name, value in summary.items() if _is_shown(name, value)}
    tables = {name: value for name, value in shown.items() if _is_table(value)}
    write_facts({name: _as_lines(name, value) for name, value in shown.items() if name not in tables}, as_json=False)
    for rows in tables.values():
        write_line("")
        headings = {name: name.replace("_", " ") for name in rows[0]}
        numbers = [headings[name] for name, value in rows[0].items() if isinstance(value, int)]
        cells = ([show_fact(name, value) for name, value in row.items()] for row in rows)
        write_table(list(headings.values()), cells, right=numbers)


def _is_shown(name: str, value: Any) -> bool:
    return value is not None and value != {} and value != [] and (name != "dry_run" or value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], Mapping)


def _as_lines(name: str, value: Any) -> Any:
    """Return one line per entry of an object, whose keys are names that somebody chose."""
    if not isinstance(value, Mapping):
        return value
    unit = "committed_id" if name == "archived" else name
    return [f"{key}: {show_fact(unit, number)}" for key, number in value.items()]
