"""Mismatches between a JSON value and a struct, described for the client that sent it.

The parser accepts valid payloads without this; only when it has refused one is the reason looked for here.
"""

from functools import cache
from typing import Any, Final

from msgspec import inspect

KINDS: Final[tuple[tuple[type[inspect.Type], type, str], ...]] = (
    (inspect.StructType, dict, "an object"),
    (inspect.ListType, list, "an array"),
    (inspect.StrType, str, "a string"),
    (inspect.IntType, int, "an integer"),
    (inspect.NoneType, type(None), "null"),
)

_type_info = cache(inspect.type_info)


def find_mismatch(value: Any, type_: Any) -> str | None:
    """Return the first mismatch, such as `events[0].id must be a string`, or None if there is none."""
    return _find(value, _type_info(type_), "")


def _find(value: Any, expected: inspect.Type, path: str) -> str | None:
    alternatives = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    names: list[str] = []
    for alternative in alternatives:
        known = next((kind for kind in KINDS if isinstance(alternative, kind[0])), None)
        if known is None:  # any JSON value is accepted here
            return None
        _, kind, name = known
        if isinstance(value, kind) and not isinstance(value, bool):
            return _find_inside(value, alternative, path)
        names.append(name)
    return f"{path or 'it'} must be {' or '.join(names)}"


def _find_inside(value: Any, expected: inspect.Type, path: str) -> str | None:
    if isinstance(expected, inspect.StructType):
        for field in expected.fields:
            inner = f"{path}.{field.encode_name}" if path else field.encode_name
            if field.encode_name in value:
                fault = _find(value[field.encode_name], field.type, inner)
            else:
                fault = f"{inner} is missing" if field.required else None
            if fault is not None:
                return fault
    elif isinstance(expected, inspect.ListType):
        for number, item in enumerate(value):
            fault = _find(item, expected.item_type, f"{path}[{number}]")
            if fault is not None:
                return fault
    return None
