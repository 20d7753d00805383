"""Standard output: JSON lines, text for people, and formats such as '%o %v\\n'."""

import math
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from mainstem.cli import terminal
from mainstem.escaping import escape_json, escape_line

F = TypeVar("F", bound=Callable[..., Any])
_encode = msgspec.json.Encoder().encode

IDS = frozenset(["committed_id", "floor", "generation", "head", "lowest", "pruned"])
"""Numbers that people copy into other commands, so they are printed without separators."""


def write(data: bytes, *, flush: bool = False) -> None:
    out = sys.stdout.buffer
    out.write(data)
    if flush:
        out.flush()


def write_json(value: Any, *, flush: bool = False) -> None:
    write_json_line(_encode(value), flush=flush)


def write_json_line(line: bytes, *, flush: bool = False) -> None:
    """Write JSON unchanged. On a terminal, write an equal text without control characters."""
    if terminal.is_escaped():
        line = escape_json(line.decode()).encode()
    write(line + b"\n", flush=flush)


def write_line(text: str) -> None:
    """Write a line for people. Control characters in it are escaped, since other users choose names."""
    write(escape_line(text).encode("utf-8", "surrogateescape") + b"\n")


def write_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """Write one thing: a JSON object, or for people a line per fact, without those that are empty."""
    if as_json:
        write_json(facts)
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        label = name.replace("_", " ")
        for text in _describe(name, value):
            write_line(f"{label:{width}}  {text}")
            label = ""


def _describe(name: str, value: Any) -> list[str]:
    """Return the lines that show a fact to people: none for an empty one, and one per item of a list."""
    if value is None or value in ({}, [], ()):
        return []
    if isinstance(value, list | tuple):
        return [_describe_item(item) for item in value]
    return [_describe_item(value) if isinstance(value, Mapping) else show_fact(name, value)]


def _describe_item(item: Any) -> str:
    if not isinstance(item, Mapping):
        return show(item)
    return ", ".join(f"{name.replace('_', ' ')} {show_fact(name, value)}" for name, value in item.items())


def write_result(facts: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Write what a command has done: a JSON object, or a sentence."""
    if as_json:
        write_json(facts)
    else:
        write_line(text)


def write_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[str] = ()) -> None:
    """Write rows under headings, in columns as wide as necessary; those in `right` are aligned to the right."""
    table = [headings, *([escape_line(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    sides = [">" if heading in right else "<" for heading in headings]
    for row in table:
        cells = (f"{value:{side}{width}}" for value, side, width in zip(row, sides, widths, strict=True))
        write_line("  ".join(cells).rstrip())


def write_rows(rows: Iterable[Sequence[Any]]) -> None:
    """Write rows in columns as wide as necessary, without headings."""
    table = [[escape_line(show(value)) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))] if table else []
    for row in table:
        write_line("  ".join(f"{value:{width}}" for value, width in zip(row, widths, strict=True)).rstrip())


def note_empty(text: str) -> None:
    """Say on standard error that a list is empty, if a person at a terminal would otherwise see nothing."""
    if sys.stdout.isatty():
        click.echo(f"mainstem: {escape_line(text)}", err=True)


# Values for people


def show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else _encode(value).decode()


def show_fact(name: str, value: Any) -> str:
    """Return a value as people read it. Its name tells the unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return show(value)
    if name in IDS:
        return str(value)
    if name.endswith("bytes_per_second"):
        return f"{format_bytes(value)}/s"
    if "bytes" in name.split("_"):
        return format_bytes(value)
    return format_number(value)


def format_number(value: float) -> str:
    """Return a number with separators, and with decimals only if it is small: 2,984,089 or 12.35."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


UNITS = ("KiB", "MiB", "GiB", "TiB")


def format_bytes(size: float) -> str:
    """Return a size in the largest unit that it fills: 512 B, 2.8 MiB."""
    if size < 1_024:
        return f"{size:.0f} B"
    power = min(int(math.log(size, 1_024)), len(UNITS))
    return f"{size / 1_024**power:,.1f} {UNITS[power - 1]}"


DURATIONS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, as the options take them: 45s, 1h, 3d4h."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in DURATIONS:
        number, left = divmod(left, length)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2]) or "0s"


def as_value(data: bytes, is_json: bool) -> dict[str, Any]:
    """Return data as a member of a JSON object: JSON and text unchanged, anything else in base64."""
    if is_json:
        return {"value": msgspec.Raw(data)}
    try:
        return {"value": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value_base64": b64encode(data).decode()}


ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
PIECE = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)


class Format:
    """A template: `%` and a letter stand for a part of the message; `\\n`, `\\t` and `\\0` have their usual meaning."""

    def __init__(self, text: str, letters: Mapping[str, str]) -> None:
        self._pieces: list[bytes | str] = []
        for match in PIECE.finditer(text):
            letter, escape, plain, _ = match.groups()
            if letter == "%":
                self._pieces.append(b"%")
            elif letter is not None and letter in letters:
                self._pieces.append(letter)
            elif escape is not None and escape in ESCAPES:
                self._pieces.append(ESCAPES[escape])
            elif plain is not None:
                self._pieces.append(plain.encode("utf-8", "surrogateescape"))
            else:
                known = ", ".join(f"%{letter} {meaning}" for letter, meaning in letters.items())
                raise click.BadParameter(f"{match[0]!r} is not part of a format; use {known}, %%, \\n, \\t, \\0, \\\\")

    def fill(self, parts: Mapping[str, bytes]) -> bytes:
        """Return the template with its parts filled in. Only the parts are escaped: the template is the user's own."""
        return b"".join(piece if isinstance(piece, bytes) else terminal.show(parts[piece]) for piece in self._pieces)


class FormatType(click.ParamType[Format]):
    name = "format"

    def __init__(self, letters: Mapping[str, str]) -> None:
        self._letters = letters

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Format:
        return value if isinstance(value, Format) else Format(value, self._letters)


def format_option(letters: Mapping[str, str]) -> Callable[[F], F]:
    """Add -f, as `form`, and --raw."""
    known = ", ".join(f"%{letter} {meaning}" for letter, meaning in letters.items())
    form = click.option(
        "-f",
        "--format",
        "form",
        metavar="FORMAT",
        type=FormatType(letters),
        help=f"Print each with this format: {known}, \\n.",
    )
    return lambda function: form(terminal.raw_option(function))
