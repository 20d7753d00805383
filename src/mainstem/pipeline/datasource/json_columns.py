"""Extracts typed columns from JSON messages. `schema` names the fields, and a value that does not fit becomes null.

msgspec decodes messages into structs of these fields, which is strict and fast. Only a message that does not fit is
decoded again, field by field. (Arrow's own JSON reader crashes on a top-level `null`.)
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from mainstem.errors import BadOption

Finish = Callable[[Any], Any]

INTEGERS: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
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


class JsonColumns:
    """Turns JSON messages into the Arrow columns of one Spark schema."""

    def __init__(self, schema: t.StructType) -> None:
        self.fields = schema.fields
        self._types = [_python_type(field.dataType, field.name) for field in self.fields]
        # Spark allows any name, so the attributes are numbered, and renamed in JSON.
        self._row = msgspec.defstruct(
            "Row",
            [(f"f{number}", type_ | None, None) for number, type_ in enumerate(self._types)],
            rename={f"f{number}": field.name for number, field in enumerate(self.fields)},
            gc=False,
        )
        self._decode = msgspec.json.Decoder(self._row).decode
        self._arrow = [to_arrow_type(field.dataType, timezone="UTC") for field in self.fields]
        self._finish = [_finish(field.dataType) for field in self.fields]
        self._nothing = self._row()

    def parse(self, messages: pa.Array, is_json: list[bool] | None) -> list[pa.Array]:
        """Return one column per field. `is_json` says which messages are JSON; None means all."""
        raw = messages.to_pylist()
        if is_json is None:
            rows = [self._parse_row(message) for message in raw]
        else:
            rows = [self._parse_row(message) if ok else None for message, ok in zip(raw, is_json, strict=True)]
        return [self._column(number, rows) for number in range(len(self.fields))]

    def parse_struct(self, messages: pa.Array, is_json: list[bool] | None) -> pa.Array:
        """Return the fields as one column of structs, with null for a message that is not a JSON object."""
        raw = messages.to_pylist()
        flags = is_json if is_json is not None else [True] * len(raw)
        rows = [self._parse_row(message) if ok else None for message, ok in zip(raw, flags, strict=True)]
        columns = [self._column(number, rows) for number in range(len(self.fields))]
        fields = [pa.field(field.name, type_) for field, type_ in zip(self.fields, self._arrow, strict=True)]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=fields, mask=missing)

    def _column(self, number: int, rows: list[Any]) -> pa.Array:
        name, finish = f"f{number}", self._finish[number]
        values = [None if row is None else getattr(row, name) for row in rows]
        if finish is not None:
            values = [None if value is None else finish(value) for value in values]
        return pa.array(values, self._arrow[number])

    def _parse_row(self, message: bytes) -> Any:
        try:
            return self._decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._parse_loosely(message)

    def _parse_loosely(self, message: bytes) -> Any:
        """Return the fields of a message that fit, or None if it is not a JSON object."""
        try:
            found = msgspec.json.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        values = [_convert(found.get(field.name), type_) for field, type_ in zip(self.fields, self._types, strict=True)]
        return self._row(*values)


def _convert(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    if type_ is str and not isinstance(value, str):
        return msgspec.json.encode(value).decode()  # as in Spark's from_json
    try:
        return msgspec.convert(value, type_, strict=False)
    except (msgspec.ValidationError, ValueError, ArithmeticError):
        return None


def _python_type(type_: t.DataType, where: str) -> Any:
    bits = INTEGERS.get(type(type_))
    if bits is not None:
        most = 2 ** (bits - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if type(type_) in PLAIN:
        return PLAIN[type(type_)]
    if isinstance(type_, t.ArrayType):
        return list[_python_type(type_.elementType, where) | None]  # type: ignore[misc]
    if isinstance(type_, t.StructType):
        fields = [(f"f{n}", _python_type(f.dataType, f.name) | None, None) for n, f in enumerate(type_.fields)]
        names = {f"f{n}": f.name for n, f in enumerate(type_.fields)}
        return msgspec.defstruct("Inner", fields, rename=names, gc=False)
    raise BadOption(f"schema: {where} has the type {type_.simpleString()}, which cannot be read from JSON")


def _finish(type_: t.DataType) -> Finish | None:
    """Return a function that turns a decoded value into one that Arrow accepts, or None if it does already."""
    if isinstance(type_, t.DecimalType):
        step, most = decimal.Decimal(1).scaleb(-type_.scale), type_.precision
        return lambda value: _fit_decimal(value, step, most)
    if isinstance(type_, t.TimestampType):
        return lambda value: value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if isinstance(type_, t.TimestampNTZType):
        return lambda value: value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(type_, t.ArrayType):
        inner = _finish(type_.elementType)
        if inner is None:
            return None
        return lambda values: [None if value is None else inner(value) for value in values]
    if isinstance(type_, t.StructType):
        fields = [(f.name, f"f{n}", _finish(f.dataType)) for n, f in enumerate(type_.fields)]
        return lambda value: {name: _finish_field(getattr(value, slot), inner) for name, slot, inner in fields}
    return None


def _finish_field(value: Any, finish: Finish | None) -> Any:
    return value if value is None or finish is None else finish(value)


def _fit_decimal(value: decimal.Decimal, step: decimal.Decimal, digits_max: int) -> decimal.Decimal | None:
    try:
        fitted = value.quantize(step, context=decimal.Context(prec=38))
    except decimal.InvalidOperation:
        return None
    return fitted if len(fitted.as_tuple().digits) <= digits_max else None
