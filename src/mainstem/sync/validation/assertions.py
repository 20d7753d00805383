"""Assertions of JSON Schema: the keywords that examine a single value, each compiled into a check.

Equality (`const`, `enum`, `uniqueItems`) is that of the protocol: 1 equals 1.0, and true does not equal 1. `pattern`
uses Python's `re` with ASCII classes, and `$` matches only at the very end, as in ECMAScript. Operators must avoid
patterns with catastrophic backtracking.
"""

import operator
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from mainstem.errors import SettingsError
from mainstem.sync.protocol.canonical import canonicalize

# The location of a value in the event: its key, and the location of its container. It is formatted only for an error.
Location = tuple[str | int, Any] | None
Violation = tuple[Location, str]
Check = Callable[[Any, Location], Iterator[Violation]]


QUOTED_CHARS_MAX: Final = 200  # of the values and patterns that an error quotes from a schema


def require(condition: bool, where: str, requirement: str) -> None:
    if not condition:
        raise SettingsError(f"{where}: {requirement}")


def accept_anything(value: Any, location: Location) -> Iterator[Violation]:
    return iter(())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
NAMES: Final = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}


def _type(argument: Any, where: str) -> Check:
    names = [argument] if isinstance(argument, str) else argument
    require(
        isinstance(names, list) and bool(names) and all(isinstance(name, str) and name in TYPES for name in names),
        where,
        f"must be one or more of {', '.join(TYPES)}",
    )
    tests = [TYPES[name] for name in names]
    message = f"must be {' or '.join(NAMES[name] for name in names)}"

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if not any(test(value) for test in tests):
            yield location, message

    return check


def _equal_to_one(values: list[Any], message: str) -> Check:
    allowed = frozenset(map(canonicalize, values))

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if canonicalize(value) not in allowed:
            yield location, message

    return check


def _quote(*values: Any) -> str:
    return _clip(", ".join(canonicalize(value).decode() for value in values))


def _clip(text: str) -> str:
    return text if len(text) <= QUOTED_CHARS_MAX else text[: QUOTED_CHARS_MAX - 1] + "…"


def _const(argument: Any, where: str) -> Check:
    return _equal_to_one([argument], f"must be {_quote(argument)}")


def _enum(argument: Any, where: str) -> Check:
    require(isinstance(argument, list), where, "must be an array")
    return _equal_to_one(argument, f"must be one of {_quote(*argument)}")


class _Bound(NamedTuple):
    applies: Callable[[Any], bool]
    measure: Callable[[Any], Any]
    holds: Callable[[Any, Any], bool]
    message: str
    unit: str = ""


def _itself(value: Any) -> Any:
    return value


BOUNDS: Final = {
    "minimum": _Bound(_is_number, _itself, operator.ge, "must be at least"),
    "maximum": _Bound(_is_number, _itself, operator.le, "must be at most"),
    "exclusiveMinimum": _Bound(_is_number, _itself, operator.gt, "must be greater than"),
    "exclusiveMaximum": _Bound(_is_number, _itself, operator.lt, "must be less than"),
    "minLength": _Bound(TYPES["string"], len, operator.ge, "must have at least", "characters"),
    "maxLength": _Bound(TYPES["string"], len, operator.le, "must have at most", "characters"),
    "minItems": _Bound(TYPES["array"], len, operator.ge, "must have at least", "items"),
    "maxItems": _Bound(TYPES["array"], len, operator.le, "must have at most", "items"),
    "minProperties": _Bound(TYPES["object"], len, operator.ge, "must have at least", "properties"),
    "maxProperties": _Bound(TYPES["object"], len, operator.le, "must have at most", "properties"),
}


def _bound(bound: _Bound, argument: Any, where: str) -> Check:
    applies, measure, holds, message, unit = bound
    if measure is len:
        require(_is_integer(argument) and argument >= 0, where, "must be an integer, 0 or greater")
    require(_is_number(argument), where, "must be a number")
    violation = f"{message} {argument} {unit}".rstrip()

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if applies(value) and not holds(measure(value), argument):
            yield location, violation

    return check


# Matches whole escapes and character classes too: only a `$` outside them matches the end of the text.
DOLLAR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\$)", re.DOTALL)


def _pattern(argument: Any, where: str) -> Check:
    require(isinstance(argument, str), where, "must be a string")
    try:
        pattern = re.compile(DOLLAR.sub(lambda match: r"\Z" if match[1] else match[0], argument), re.ASCII)
    except re.error as error:
        raise SettingsError(f"{where}: is not a valid regular expression: {error}") from None

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, str) and not pattern.search(value):
            yield location, f"must match the pattern {_clip(argument)}"

    return check


def _required(argument: Any, where: str) -> Check:
    names = argument
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(are_names, where, "must be an array of strings")

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    yield (name, location), "is missing"

    return check


def _unique_items(argument: Any, where: str) -> Check:
    require(isinstance(argument, bool), where, "must be a boolean")
    if not argument:
        return accept_anything

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, list) and len(set(map(canonicalize, value))) < len(value):
            yield location, "must not contain an item twice"

    return check


ASSERTIONS: Final[dict[str, Callable[[Any, str], Check]]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "required": _required,
    "uniqueItems": _unique_items,
    **{keyword: partial(_bound, bound) for keyword, bound in BOUNDS.items()},
}
"""Maps a keyword to a function that compiles it from its argument and its position in the schema. The function raises
`SettingsError` if the argument is invalid."""
