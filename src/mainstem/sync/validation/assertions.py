"""Assertions of JSON Schema: the keywords that look at one value, each compiled into a check of it.

Equality (`const`, `enum`, `uniqueItems`) is the contract's: 1 = 1.0, and true is not 1. `pattern` is Python's `re`,
with ASCII classes and with `$` at the very end only, as in ECMAScript; it is the operator's to write patterns that
cannot run away.
"""

import operator
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from mainstem.errors import SettingsError
from mainstem.sync.protocol.canonical import canonicalize

# Where a value is in the event: its key, and the location of what holds it. It is formatted only for an error.
Location = tuple[str | int, Any] | None
Violation = tuple[Location, str]
Check = Callable[[Any, Location], Iterator[Violation]]


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


def _type(argument: Any, where: str) -> Check:
    names = [argument] if isinstance(argument, str) else argument
    require(
        isinstance(names, list) and bool(names) and all(isinstance(name, str) and name in TYPES for name in names),
        where,
        f"must be of {', '.join(TYPES)}",
    )
    tests = [TYPES[name] for name in names]
    message = f"must be {' or '.join(names)}"

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


def _const(argument: Any, where: str) -> Check:
    return _equal_to_one([argument], "must be the one value allowed")


def _enum(argument: Any, where: str) -> Check:
    require(isinstance(argument, list), where, "must be an array")
    return _equal_to_one(argument, "must be one of the values allowed")


class _Bound(NamedTuple):
    applies: Callable[[Any], bool]
    measure: Callable[[Any], Any]
    holds: Callable[[Any, Any], bool]
    message: str


def _itself(value: Any) -> Any:
    return value


BOUNDS: Final = {
    "minimum": _Bound(_is_number, _itself, operator.ge, "must be at least"),
    "maximum": _Bound(_is_number, _itself, operator.le, "must be at most"),
    "exclusiveMinimum": _Bound(_is_number, _itself, operator.gt, "must be greater than"),
    "exclusiveMaximum": _Bound(_is_number, _itself, operator.lt, "must be less than"),
    "minLength": _Bound(TYPES["string"], len, operator.ge, "must have a length of at least"),
    "maxLength": _Bound(TYPES["string"], len, operator.le, "must have a length of at most"),
    "minItems": _Bound(TYPES["array"], len, operator.ge, "must have a number of items of at least"),
    "maxItems": _Bound(TYPES["array"], len, operator.le, "must have a number of items of at most"),
    "minProperties": _Bound(TYPES["object"], len, operator.ge, "must have a number of properties of at least"),
    "maxProperties": _Bound(TYPES["object"], len, operator.le, "must have a number of properties of at most"),
}


def _bound(bound: _Bound, argument: Any, where: str) -> Check:
    applies, measure, holds, message = bound
    if measure is len:
        require(_is_integer(argument) and argument >= 0, where, "must be an integer from 0 on")
    require(_is_number(argument), where, "must be a number")

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if applies(value) and not holds(measure(value), argument):
            yield location, f"{message} {argument}"

    return check


# Escapes and character classes are passed over whole: only a `$` outside of them means the end of the text.
DOLLAR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\$)", re.DOTALL)


def _pattern(argument: Any, where: str) -> Check:
    require(isinstance(argument, str), where, "must be a string")
    try:
        pattern = re.compile(DOLLAR.sub(lambda match: r"\Z" if match[1] else match[0], argument), re.ASCII)
    except re.error as error:
        raise SettingsError(f"{where}: not a pattern: {error}") from None

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, str) and not pattern.search(value):
            yield location, "does not have the form demanded"

    return check


def _required(argument: Any, where: str) -> Check:
    names = argument
    require(isinstance(names, list) and all(isinstance(name, str) for name in names), where, "must be strings")

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
            yield location, "must not hold an item twice"

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
"""By keyword: takes its argument and where it stands in the schema; `SettingsError` for an argument that is none."""
