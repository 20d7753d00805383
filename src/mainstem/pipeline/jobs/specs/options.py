"""How an option of a job is declared, and how a value of a TOML file becomes one.

A spec is a struct with a field per option. Its type says which values are valid, and `option` adds the help, the word
for the value in `--help`, and bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from mainstem.timestamps import read_time

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one job."""

    def make_job(self) -> Job:
        """Return the job. Raises `BadOption` or `BadPolicy` for options that do not fit."""
        raise NotImplementedError


class ValueKind(StrEnum):
    """How a value is written."""

    TEXT = "text"
    NUMBER = "number"
    SHARE = "share"
    """A number with decimals."""
    SWITCH = "switch"
    LIST = "list"
    """Texts; the option can be repeated on the command line."""
    NAMES = "names"
    """Texts, which are separated by commas on the command line."""
    TIME = "time"


class Declared(NamedTuple):
    """What `option` says about a field, besides its type."""

    help: str
    metavar: str | None
    kind: ValueKind | None
    argument: bool
    location: bool
    least: float | None
    most: float | None


def option(
    help: str,
    metavar: str | None = None,
    *,
    kind: ValueKind | None = None,
    argument: bool = False,
    location: bool = False,
    least: float | None = None,
    most: float | None = None,
) -> Declared:
    """Describe a field of a spec. An `argument` has no name on the command line. A relative `location` in a file is
    relative to the directory of that file."""
    return Declared(help, metavar, kind, argument, location, least, most)


class JobOption(NamedTuple):
    """One option of a job, for the command line and for files."""

    name: str
    kind: ValueKind
    required: bool
    default: Any
    choices: tuple[str, ...]
    declared: Declared

    def describe_values(self) -> str:
        """Return which values are valid, such as `a whole number of at least 1`."""
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}"
        if self.kind in (ValueKind.NUMBER, ValueKind.SHARE):
            return ("a whole number" if self.kind is ValueKind.NUMBER else "a number") + self._describe_bounds()
        return DESCRIPTIONS[self.kind]

    def _describe_bounds(self) -> str:
        least, most = self.declared.least, self.declared.most
        if least is None:
            return ""
        return f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"

    def read_value(self, value: Any) -> Any:
        """Return a value of a TOML file as the field of the spec has it. Raises ValueError for any other value."""
        match self.kind:
            case ValueKind.SWITCH if isinstance(value, bool):
                return value
            case ValueKind.LIST | ValueKind.NAMES:
                return _read_texts(value)
            case ValueKind.TIME if isinstance(value, str | date):
                return _read_time(value)
            case ValueKind.NUMBER if isinstance(value, int) and not isinstance(value, bool):
                return self._check_bounds(value)
            case ValueKind.SHARE if isinstance(value, int | float) and not isinstance(value, bool):
                return self._check_bounds(float(value))
            case ValueKind.TEXT if isinstance(value, str) and value and (not self.choices or value in self.choices):
                return value
        raise ValueError(value)

    def _check_bounds(self, value: float) -> float:
        least, most = self.declared.least, self.declared.most
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(value)
        return value


DESCRIPTIONS = {
    ValueKind.TEXT: "a text in quotes",
    ValueKind.SWITCH: "true or false",
    ValueKind.LIST: "a text in quotes, or a list of them",
    ValueKind.NAMES: "a text in quotes, or a list of them",
    ValueKind.TIME: "a time, such as 2026-01-31 or 2026-01-31T12:00:00Z",
}


def list_options(spec: type[JobSpec]) -> list[JobOption]:
    """Return the options of a kind of job, in the order of its fields."""
    hints = get_type_hints(spec, include_extras=True)
    return [_read_field(field, hints[field.name]) for field in msgspec.structs.fields(spec)]


def _read_field(field: msgspec.structs.FieldInfo, hint: Any) -> JobOption:
    type_, declared = get_args(hint)[0], hint.__metadata__[0]
    types = [part for part in (get_args(type_) if _is_union(type_) else (type_,)) if part is not type(None)]
    choices = get_args(types[0]) if get_origin(types[0]) is Literal else ()
    kind = declared.kind or (ValueKind.TEXT if choices else KINDS_BY_TYPE[types[0]])
    default = None if field.required else field.default
    return JobOption(field.name, kind, field.required, default, choices, declared)


def _is_union(type_: Any) -> bool:
    return get_origin(type_) is not Literal and type(None) in get_args(type_)


KINDS_BY_TYPE: dict[Any, ValueKind] = {
    str: ValueKind.TEXT,
    int: ValueKind.NUMBER,
    float: ValueKind.SHARE,
    bool: ValueKind.SWITCH,
    tuple[str, ...]: ValueKind.LIST,
}


def suggest(name: str, known: Sequence[str]) -> str:
    """Return a question that names the known word that is most like this one, or nothing if none is."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text that separates them by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _read_texts(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given or not all(isinstance(text, str) and text for text in given):
        raise ValueError(value)
    return tuple(given)


def _read_time(value: str | date) -> int:
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return read_time(value if isinstance(value, str) else value.isoformat())
