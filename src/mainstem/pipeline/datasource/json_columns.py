"""Extracts typed columns from JSON messages. `schema` names the fields, and a value that does not fit becomes null.

msgspec decodes messages into structs of these fields, which is strict and fast. Only a message that does not fit is
decoded again, field by field, as Spark's JSON source does it. (Arrow's own JSON reader crashes on a top-level `null`.)
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.json_values import INTEGERS, Faults, Reader, make_reader

Finish = Callable[[Any], Any]
PLAIN: dict[type[t.DataType], Any] = {
    t.StringType: str,
    t.BooleanType: bool,
    t.FloatType: float,
    t.DoubleType: float,
    t.DecimalType: decimal.Decimal,
    t.DateType: datetime.date,
    t.TimestampType: datetime.datetime,
    t.TimestampNTZType: datetime.datetime,
}
NOT_AN_OBJECT = "it is not a JSON object"


class Parsed(NamedTuple):
    """The columns of some messages, in the order of the schema."""

    columns: list[pa.Array]
    faults: dict[int, str]
    """Why messages do not fit the schema, by their numbers."""
    missing: list[int]
    """The messages that have no fields at all."""


class JsonColumns:
    """Turns JSON messages into the Arrow columns of one Spark schema. The column `corrupt` holds the text of messages
    that do not fit."""

    def __init__(self, schema: t.StructType, corrupt: str | None = None) -> None:
        self.fields = schema.fields
        self._corrupt = next((n for n, field in enumerate(self.fields) if field.name == corrupt), None)
        if self._corrupt is not None and not isinstance(self.fields[self._corrupt].dataType, t.StringType):
            raise BadOption(f"schema: {corrupt} is the column of corrupt records, and must be a STRING")
        of_json = [field for number, field in enumerate(self.fields) if number != self._corrupt]
        not_null = next((field.name for field in of_json if not field.nullable), None)
        if not_null is not None:
            raise BadOption(f"schema: {not_null} is NOT NULL, but a message may lack it: leave NOT NULL out")
        self._row = _make_struct(of_json)
        self._decode = msgspec.json.Decoder(self._row).decode
        self._arrow = [to_arrow_type(field.dataType, timezone="UTC") for field in self.fields]
        self._read_loosely: Reader = make_reader(t.StructType(of_json), self._row)
        self._overflows: Faults = []
        self._columns = [
            (attrgetter(f"f{n}"), _finish(field.dataType, self._overflows)) for n, field in enumerate(of_json)
        ]
        self._nothing = self._row()

    def parse(self, messages: pa.Array, is_json: list[bool] | None) -> Parsed:
        """Return one column per field. `is_json` says which messages are JSON; None means all."""
        raw = messages.to_pylist()
        faults: dict[int, str] = {}
        missing: list[int] = []
        rows: list[Any] = []
        add, decode = rows.append, self._decode
        for number, message in enumerate(raw):
            try:
                add(decode(message))
            except (msgspec.DecodeError, UnicodeDecodeError):
                row, fault = self._parse_loosely(message)
                add(row)
                if fault is not None:
                    faults[number] = fault
                if row is self._nothing:
                    missing.append(number)
        if is_json is not None:
            for number, ok in enumerate(is_json):
                if not ok:
                    rows[number], faults[number] = self._nothing, "it is not JSON"
            missing = [number for number, row in enumerate(rows) if row is self._nothing]
        types = [type_ for number, type_ in enumerate(self._arrow) if number != self._corrupt]
        columns = [
            _build_column(list(map(read, rows)), finish, type_)
            for (read, finish), type_ in zip(self._columns, types, strict=True)
        ]
        if self._overflows:
            self._find_overflows(rows, faults)
        if self._corrupt is not None:
            columns.insert(self._corrupt, _collect_texts(raw, faults))
        return Parsed(columns, faults, missing)

    def _find_overflows(self, rows: list[Any], faults: dict[int, str]) -> None:
        """Convert the rows once more, one by one, to find those with values that are out of range."""
        for number, row in enumerate(rows):
            self._overflows.clear()
            for read, finish in self._columns:
                _finish_field(read(row), finish)
            if self._overflows:
                faults.setdefault(number, self._overflows[0])
        self._overflows.clear()

    def parse_struct(self, messages: pa.Array, is_json: list[bool] | None) -> tuple[pa.Array, dict[int, str]]:
        """Return the fields as one column of structs, and the faults of messages. A message that is not a JSON object
        is null, unless its struct has a field for it."""
        columns, faults, missing = self.parse(messages, is_json)
        fields = [pa.field(field.name, type_) for field, type_ in zip(self.fields, self._arrow, strict=True)]
        if not missing or self._corrupt is not None:
            return pa.StructArray.from_arrays(columns, fields=fields), faults
        gone = set(missing)
        mask = pa.array([number in gone for number in range(len(messages))], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask), faults

    def _parse_loosely(self, message: bytes) -> tuple[Any, str | None]:
        """Return the fields of a message that fit, and why it does not fit as a whole."""
        try:
            found = msgspec.json.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._nothing, "it is not valid JSON"
        if not isinstance(found, dict):
            return self._nothing, NOT_AN_OBJECT
        faults: Faults = []
        return self._read_loosely(found, faults), faults[0] if faults else None


def _build_column(values: list[Any], finish: Finish | None, type_: pa.DataType) -> pa.Array:
    if finish is not None:
        values = [None if value is None else finish(value) for value in values]
    return pa.array(values, type_)


def _collect_texts(raw: list[bytes], faults: dict[int, str]) -> pa.Array:
    if not faults:
        return pa.nulls(len(raw), pa.string())
    return pa.array([raw[n].decode("utf-8", "replace") if n in faults else None for n in range(len(raw))], pa.string())


def _make_struct(fields: list[t.StructField]) -> type[Any]:
    """Return the struct that messages are decoded into. Spark allows any name, so its attributes are numbered."""
    return msgspec.defstruct(
        "Row",
        [(f"f{number}", _python_type(field.dataType, field.name) | None, None) for number, field in enumerate(fields)],
        rename={f"f{number}": field.name for number, field in enumerate(fields)},
        gc=False,
    )


def _python_type(type_: t.DataType, where: str) -> Any:
    bits = INTEGERS.get(type(type_))
    if bits is not None:
        most = 2 ** (bits - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if type(type_) in PLAIN:
        return PLAIN[type(type_)]
    if isinstance(type_, t.ArrayType):
        return list[_python_type(type_.elementType, where) | None]  # type: ignore[misc]
    if isinstance(type_, t.MapType) and isinstance(type_.keyType, t.StringType):
        return dict[str, _python_type(type_.valueType, where) | None]  # type: ignore[misc]
    if isinstance(type_, t.StructType):
        return _make_struct(type_.fields)
    raise BadOption(f"schema: {where} has the type {type_.simpleString()}, which cannot be read from JSON")


def _finish(type_: t.DataType, overflows: Faults) -> Finish | None:
    """Return a function that turns a decoded value into one that Arrow accepts, or None if it does already.

    It adds values that are out of range, which become null, to `overflows`.
    """
    if isinstance(type_, t.DecimalType):
        return _fit_decimals(type_, overflows)
    if isinstance(type_, t.TimestampType):
        return lambda value: value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if isinstance(type_, t.TimestampNTZType):
        return _drop_zones(overflows)
    if isinstance(type_, t.ArrayType):
        inner = _finish(type_.elementType, overflows)
        return None if inner is None else lambda values: [None if value is None else inner(value) for value in values]
    if isinstance(type_, t.MapType):
        of_values = _finish(type_.valueType, overflows)
        return lambda values: [(key, _finish_field(value, of_values)) for key, value in values.items()]
    if isinstance(type_, t.StructType):
        fields = [(f.name, attrgetter(f"f{n}"), _finish(f.dataType, overflows)) for n, f in enumerate(type_.fields)]
        return lambda value: {name: _finish_field(read(value), one) for name, read, one in fields}
    return None


def _finish_field(value: Any, finish: Finish | None) -> Any:
    return value if value is None or finish is None else finish(value)


def _drop_zones(overflows: Faults) -> Finish:
    def drop(value: datetime.datetime) -> datetime.datetime | None:
        try:
            return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        except OverflowError:  # before the year 1 or after 9999 in UTC
            overflows.append(f"{value.isoformat()} does not fit timestamp_ntz")
            return None

    return drop


def _fit_decimals(type_: t.DecimalType, overflows: Faults) -> Finish:
    step, whole_digits = decimal.Decimal(1).scaleb(-type_.scale), type_.precision - type_.scale
    context = decimal.Context(prec=38, rounding=decimal.ROUND_HALF_UP)
    name = type_.simpleString()

    def fit(value: decimal.Decimal) -> decimal.Decimal | None:
        try:
            fitted = value.quantize(step, context=context)
        except decimal.InvalidOperation:
            fitted = value
        if fitted.is_finite() and (fitted.adjusted() < whole_digits or not fitted):
            return fitted
        overflows.append(f"{value} does not fit {name}")
        return None

    return fit
