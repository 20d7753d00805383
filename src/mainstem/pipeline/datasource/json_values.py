"""Reads decoded JSON values as Spark types, as Spark's own JSON source does. A value that does not fit is null and a
fault, while the other values of the message are kept."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import msgspec
from pyspark.sql import types as t

Faults = list[str]
"""Why values of one message do not fit."""
Reader = Callable[[Any, Faults], Any]
"""Returns the value that Spark sees; None if it does not fit, which is then a fault."""

INTEGERS: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
SPECIAL_FLOATS = {
    "NaN": "nan",
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), "inf"),
    **dict.fromkeys(("-Infinity", "-INF"), "-inf"),
}


class _Misfit(Exception):
    """A plain value does not fit its type."""


def make_reader(type_: t.DataType, struct: Any = None) -> Reader:
    """Return a reader for a type. `struct` is the class of the values, if the type is a struct."""
    if isinstance(type_, t.StructType):
        return _read_structs(type_, struct)
    if isinstance(type_, t.ArrayType):
        return _read_arrays(make_reader(type_.elementType, _find_struct(struct)), type_.simpleString())
    if isinstance(type_, t.MapType):
        return _read_maps(make_reader(type_.valueType, _find_struct(struct)), type_.simpleString())
    return _read_plain(type_)


def _find_struct(hint: Any) -> Any:
    """Return the class of structs within the type of a field, such as `list[Row | None] | None`."""
    while hint is not None and not (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        inner = [one for one in getattr(hint, "__args__", ()) if one not in (type(None), str)]
        hint = inner[0] if inner else None
    return hint


def _read_structs(type_: t.StructType, struct: Any) -> Reader:
    hints = [field.type for field in msgspec.structs.fields(struct)]
    readers = [
        (field.name, make_reader(field.dataType, _find_struct(hint)))
        for field, hint in zip(type_.fields, hints, strict=True)
    ]
    name = type_.simpleString()

    def read(value: Any, faults: Faults) -> Any:
        if not isinstance(value, dict):
            return _refuse(value, name, faults)
        found = []
        for field, reader in readers:
            inner: Faults = []
            one = value.get(field)
            found.append(None if one is None else reader(one, inner))
            faults += [f"{field}: {fault}" for fault in inner]
        return struct(*found)

    return read


def _read_arrays(reader: Reader, name: str) -> Reader:
    def read(value: Any, faults: Faults) -> Any:
        if not isinstance(value, list):
            return _refuse(value, name, faults)
        inner: Faults = []
        found = [None if one is None else reader(one, inner) for one in value]
        faults += inner
        return None if inner else found

    return read


def _read_maps(reader: Reader, name: str) -> Reader:
    def read(value: Any, faults: Faults) -> Any:
        if not isinstance(value, dict):
            return _refuse(value, name, faults)
        inner: Faults = []
        found = {key: None if one is None else reader(one, inner) for key, one in value.items()}
        faults += inner
        return None if inner else found

    return read


def _read_plain(type_: t.DataType) -> Reader:
    read_value, name = _PLAIN[type(type_)], type_.simpleString()
    bits = INTEGERS.get(type(type_), 0)

    def read(value: Any, faults: Faults) -> Any:
        try:
            found = read_value(value)
            if bits and not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
                raise _Misfit
        except (_Misfit, ValueError, ArithmeticError, OSError):
            return _refuse(value, name, faults)
        return found

    return read


def _refuse(value: Any, name: str, faults: Faults) -> None:
    text = msgspec.json.encode(value).decode()
    faults.append(f"{text if len(text) <= 40 else text[:37] + '...'} does not fit {name}")


def _read_integer(value: Any) -> int:
    if type(value) is not int:
        raise _Misfit
    return value


def _read_string(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _read_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Misfit
    return value


def _read_float(value: Any) -> float:
    if isinstance(value, str) and value in SPECIAL_FLOATS:
        return float(SPECIAL_FLOATS[value])
    if type(value) not in (int, float):
        raise _Misfit
    return float(value)


def _read_decimal(value: Any) -> decimal.Decimal:
    if type(value) not in (int, float, str):
        raise _Misfit
    return decimal.Decimal(str(value))


def _read_time(value: Any) -> datetime.datetime:
    if type(value) is int:
        return datetime.datetime.fromtimestamp(value, datetime.UTC)
    return _read_local_time(value)


def _read_local_time(value: Any) -> datetime.datetime:
    if not isinstance(value, str) or value[4:5] != "-" or value[7:8] != "-":  # Python accepts more forms of ISO 8601
        raise _Misfit
    return datetime.datetime.fromisoformat(value)


def _read_date(value: Any) -> datetime.date:
    return _read_local_time(value).date()


_PLAIN: dict[type[t.DataType], Callable[[Any], Any]] = {
    **dict.fromkeys(INTEGERS, _read_integer),
    t.StringType: _read_string,
    t.BooleanType: _read_boolean,
    t.FloatType: _read_float,
    t.DoubleType: _read_float,
    t.DecimalType: _read_decimal,
    t.DateType: _read_date,
    t.TimestampType: _read_time,
    t.TimestampNTZType: _read_local_time,
}
