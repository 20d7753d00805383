"""Standard output: JSON lines, plain text, and formats as '%o %v\\n'."""

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


def write(data: bytes, *, flush: bool = False) -> None:
    out = sys.stdout.buffer
    out.write(data)
    if flush:
        out.flush()


def write_json(value: Any, *, flush: bool = False) -> None:
    write_json_line(_encode(value), flush=flush)


def write_json_line(line: bytes, *, flush: bool = False) -> None:
    """JSON as it came. A terminal gets an equal text that cannot command it."""
    if terminal.is_escaped():
        line = escape_json(line.decode()).encode()
    write(line + b"\n", flush=flush)


def write_line(text: str) -> None:
    """A line for people, with names in it that anybody may have chosen."""
    write(escape_line(text).encode("utf-8", "surrogateescape") + b"\n")


def write_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """One thing: a JSON object, or a line for each fact that is known."""
    if as_json:
        write_json(facts)
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if value is not None:
            write_line(f"{name.replace('_', ' '):{width}}  {show(value)}")


def write_result(facts: Mapping[str, Any], text: str, as_json: bool) -> None:
    """What a command has done: a JSON object, or a sentence."""
    if as_json:
        write_json(facts)
    else:
        write_line(text)


def write_rows(rows: Iterable[Sequence[Any]]) -> None:
    """Columns, as wide as they must be."""
    table = [[escape_line(show(value)) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))] if table else []
    for row in table:
        write_line("  ".join(f"{value:{width}}" for value, width in zip(row, widths, strict=True)).rstrip())


def show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else _encode(value).decode()


def as_value(data: bytes, is_json: bool) -> dict[str, Any]:
    """Data as a member of a JSON object: JSON and text as they are, anything else in base64."""
    if is_json:
        return {"value": msgspec.Raw(data)}
    try:
        return {"value": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value_base64": b64encode(data).decode()}


ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
PIECE = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)


class Format:
    """A template: `%` and a letter stand for a part of the message; `\\n`, `\\t` and `\\0` are what they always are."""

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
                raise click.BadParameter(f"{match[0]!r} means nothing; there are {known}, %%, \\n, \\t, \\0, \\\\")

    def fill(self, parts: Mapping[str, bytes]) -> bytes:
        """The template is the caller's own; the parts may be anybody's."""
        return b"".join(piece if isinstance(piece, bytes) else terminal.show(parts[piece]) for piece in self._pieces)


class FormatType(click.ParamType[Format]):
    name = "format"

    def __init__(self, letters: Mapping[str, str]) -> None:
        self._letters = letters

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Format:
        return value if isinstance(value, Format) else Format(value, self._letters)


def format_option(letters: Mapping[str, str]) -> Callable[[F], F]:
    """-f, as `form`, and --raw."""
    known = ", ".join(f"%{letter} {meaning}" for letter, meaning in letters.items())
    form = click.option(
        "-f", "--format", "form", metavar="FORMAT", type=FormatType(letters), help=f"How to print each: {known}, \\n."
    )
    return lambda function: form(terminal.raw_option(function))
