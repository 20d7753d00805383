"""CSV as Spark reads it, without Spark: fields, nulls, and the types of the fields.

What Spark's parser reads in its own way (stray quotes, mixed line ends, unusual numbers) is left to Spark: these
functions raise `SparkNeeded` instead of guessing.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from mainstem.errors import BadOption, BadRow
from mainstem.pipeline.lake.spark_types import SparkNeeded, encode_fields, make_field

Row = list[str]

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
DOUBLE = re.compile(r"[+-]?([0-9]*\.[0-9]+([eE][+-]?[0-9]{1,3})?|[0-9]+[eE][+-]?[0-9]{1,3})")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?")
SPACED_QUOTE = re.compile(rb'(^|,)[ \t]+"|^[ \t]+$', re.MULTILINE)
"""A blank before a quote, or a line of blanks."""
NOT_A_NUMBER = re.compile(r"(?![0-9]+[-:])[0-9].*[g-oq-suvwyG-OQ-SUVWY].*", re.DOTALL)
"""A text that begins with a digit, but is neither a number nor a time."""
SPECIAL_DOUBLES = ("NaN", "Inf", "Infinity")
YEAR_MIN = 1583  # before, Spark's calendar may be another one
INTEGER_MAX = 2**31 - 1


def split_rows(data: bytes) -> list[Row]:
    """Return the fields of every line. An empty field is null to Spark, whether it is quoted or not."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    returns = data.count(b"\r")
    if returns:
        if returns != data.count(b"\r\n") or returns != data.count(b"\n"):
            raise SparkNeeded("a CSV file mixes line ends")
        data = data.replace(b"\r\n", b"\n")  # in quoted fields too, as Spark's parser does
    if b"\0" in data or SPACED_QUOTE.search(data):
        raise SparkNeeded("a CSV file contains zero bytes, or blanks before quotes")
    try:
        text = data.decode()
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error):
        raise SparkNeeded("a CSV file is unusual: stray quotes, long fields, or bytes that are not UTF-8") from None
    return rows


def name_columns(rows: list[Row], *, header: bool) -> list[str]:
    """Return the names of the columns of the first file."""
    if not rows:
        raise SparkNeeded("a CSV file has no lines")
    if not header:
        return [f"_c{number}" for number in range(len(rows[0]))]
    names = rows[0]
    if "" in names or len({name.lower() for name in names}) < len(names):
        raise SparkNeeded("columns of a CSV file have no names, or the same names")
    return names


def check_rows(rows: list[Row], names: list[str], path: str, *, header: bool) -> list[Row]:
    """Return the rows without the header. Raise an error that names the file if a line does not fit."""
    if header and rows and rows[0] != names:
        if [name.lower() for name in rows[0]] == [name.lower() for name in names]:
            raise SparkNeeded("CSV files write the same column names differently")
        raise BadOption(f"{path} has another header than the first file: import files with other columns separately")
    found = rows[1:] if header else rows
    for row in found:
        if len(row) != len(names):
            line = ",".join(row)[:80]
            raise BadRow(f"{path} has a line that does not fit its header ({line}): correct the file")
    return found


def infer_types(names: list[str], rows: Iterator[Row]) -> str:
    """Return the schema that Spark's `inferSchema` finds, as JSON."""
    found: list[set[str]] = [set() for _ in names]
    for row in rows:
        for kinds, field in zip(found, row, strict=True):
            if field and "string" not in kinds:
                kinds.add(_classify(field))
    return encode_fields([make_field(name, _merge(name, kinds)) for name, kinds in zip(names, found, strict=True)])


def _classify(field: str) -> str:
    if INTEGER.fullmatch(field):
        return "integer" if abs(int(field)) <= INTEGER_MAX else "long"
    if DOUBLE.fullmatch(field):
        return "double"
    if field.lower() in ("true", "false"):
        return "boolean"
    if DATE.fullmatch(field):
        return "date" if _parse_date(field) else "unclear"
    if TIME.fullmatch(field):
        return "timestamp" if _parse_time(field) else "unclear"
    return "string" if _is_text(field) else "unclear"


def _is_text(field: str) -> bool:
    """Return whether a field is certainly neither a number, nor a time, nor a truth value."""
    if field != field.strip():
        return False
    if field[0].isalpha():
        return field not in SPECIAL_DOUBLES and not re.match(r"T[0-9]", field)
    return NOT_A_NUMBER.fullmatch(field) is not None


def _merge(name: str, kinds: set[str]) -> str:
    if "string" in kinds or not kinds:
        return "string"
    if "unclear" in kinds:
        raise SparkNeeded(f"the types of the CSV column {name!r} are not obvious")
    for widest in (("integer", "long", "double"), ("date", "timestamp")):
        if kinds <= set(widest):
            return max(kinds, key=widest.index)
    return "boolean" if kinds == {"boolean"} else "string"


def make_parser(name: str, type_: Any) -> Callable[[str], Any]:
    """Return a function that turns a field that is not empty into a value of Spark's type."""
    parse = PARSERS.get(type_) if isinstance(type_, str) else None
    if parse is None:
        raise SparkNeeded(f"the CSV column {name!r} has the type {type_}")

    def parse_field(field: str) -> Any:
        value = parse(field)
        if value is None:
            raise SparkNeeded(f"a field of the CSV column {name!r} is an unusual {type_}")
        return value

    return parse_field


def _parse_integer(limit: int) -> Callable[[str], int | None]:
    def parse(field: str) -> int | None:
        value = int(field) if INTEGER.fullmatch(field) else None
        return value if value is not None and abs(value) <= limit else None

    return parse


def _parse_double(field: str) -> float | None:
    return float(field) if INTEGER.fullmatch(field) or DOUBLE.fullmatch(field) else None


def _parse_boolean(field: str) -> bool | None:
    return {"true": True, "false": False}.get(field.lower())


def _parse_date(field: str) -> date | None:
    try:
        found = date.fromisoformat(field) if DATE.fullmatch(field) else None
    except ValueError:
        return None
    return found if found is not None and found.year >= YEAR_MIN else None


def _parse_time(field: str) -> datetime | None:
    if not DATE.fullmatch(field) and not TIME.fullmatch(field):
        return None
    try:
        found = datetime.fromisoformat(field)
    except ValueError:
        return None
    if found.year < YEAR_MIN:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": _parse_integer(INTEGER_MAX),
    "long": _parse_integer(10**18),
    "double": _parse_double,
    "boolean": _parse_boolean,
    "date": _parse_date,
    "timestamp": _parse_time,
}
