"""Our own words for JSON that cannot be decoded: the decoder's text is for programmers, and never shown to people."""

import re
from typing import Final

import msgspec

KINDS: Final = {
    "array": "an array",
    "bool": "true or false",
    "bytes": "a base64 string",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
COMPARISONS: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
UNITS: Final = {"str": "character", "array": "item", "object": "member", "bytes": "byte"}

_PATH: Final = re.compile(r"(.*?)(?: - at `(.+)`)?", re.DOTALL)
_WRONG_KIND: Final = re.compile(r"Expected `(.+?)`, got `(.+?)`")
_WRONG_LENGTH: Final = re.compile(r"Expected `(\w+)` of length (<=|>=|<|>) (\d+)")
_OUT_OF_RANGE: Final = re.compile(r"Expected `(?:int|float)` (<=|>=|<|>) (\S+)")
_MISSING: Final = re.compile(r"Object missing required field `(.+?)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.+?)`")
_MALFORMED: Final = re.compile(r"JSON is malformed: .+ \(byte (\d+)\)", re.DOTALL)


def explain_json_error(error: Exception, whole: str = "the body") -> str:
    """Return why JSON could not be decoded, as the end of a sentence; `whole` names the value as a whole.

    `error` is what msgspec raises: a `MsgspecError`, a `ValueError` of the function that reads its numbers, a
    `UnicodeDecodeError` or a `RecursionError`.
    """
    if isinstance(error, RecursionError):
        return f"{whole} is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"{whole} is not UTF-8"
    if not isinstance(error, msgspec.MsgspecError):
        return f"{whole} has a number out of range"
    found = _PATH.fullmatch(str(error))
    assert found is not None
    text, path = found[1], found[2] or "$"
    where = whole if path == "$" else path.removeprefix("$").removeprefix(".")
    if not isinstance(error, msgspec.ValidationError):
        malformed = _MALFORMED.fullmatch(text)
        return f"{whole} is not valid JSON" + (f" (see byte {malformed[1]})" if malformed else " (it ends too early)")
    return _explain_value(text, where, whole)


def _explain_value(text: str, where: str, whole: str) -> str:
    if found := _WRONG_KIND.fullmatch(text):
        got = "a decimal number" if found[2] == "float" else _name_kinds(found[2])
        return f"{where} must be {_name_kinds(found[1])}, not {got}"
    if found := _WRONG_LENGTH.fullmatch(text):
        unit = UNITS.get(found[1], "item") + ("" if found[3] == "1" else "s")
        return f"{where} must have {COMPARISONS[found[2]]} {found[3]} {unit}"
    if found := _OUT_OF_RANGE.fullmatch(text):
        return f"{where} must be {COMPARISONS[found[1]]} {found[2]}"
    if found := _MISSING.fullmatch(text):
        return f"{_within(found[1], where, whole)} is missing"
    if found := _UNKNOWN.fullmatch(text):
        return f"{_within(found[1], where, whole)} is not a known field"
    if text in ("Number out of range", "Integer value out of range"):  # the latter has more than 4300 digits
        known = where != whole and "[...]" not in where  # such a path leads through objects without a type
        return f"{where} is a number out of range" if known else f"{whole} has a number out of range"
    return f"{where} has a value that is not allowed"


def _within(field: str, where: str, whole: str) -> str:
    return field if where == whole else f"{where}.{field}"


def _name_kinds(kinds: str) -> str:
    return " or ".join(KINDS.get(kind, "another kind of value") for kind in kinds.split(" | "))
