"""Infers a schema from a sample of JSON messages (`schema=infer`), by the rules of Spark's JSON source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import types as t

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.batch_converter import find_json
from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.datasource.reading.starts import resolve_end, resolve_start
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import Point, Selection, read_head, read_span

LONG_DIGITS = 20
"""Digits of the decimal type that Spark takes for a BIGINT."""
DIGITS_MAX = 38


def infer_schema(options: ReadOptions) -> t.StructType:
    """Return the schema of the first messages of a read, or of the last ones if it starts at the end of the log."""
    found = merge_messages(sample_messages(options))
    if not found.fields:
        raise BadOption(
            "schema=infer found no JSON object with fields in the messages to read: write the schema as DDL, like "
            "'item STRING, cents BIGINT'"
        )
    return found


def sample_messages(options: ReadOptions) -> Iterator[bytes]:
    """Yield JSON messages, up to `inferRows`."""
    selection = Selection(streams=options.streams, partitions=options.partitions, kind=options.kind)
    with HttpClient(options.server) as client:
        head = read_head(client, selection)
        start = resolve_start(client, options, head).after
        end = resolve_end(client, options, head)
    if start < end:
        yield from _read_json(options, selection, start, min(end, start + limits.INFER_IDS_MAX))
        return
    ids = options.infer_rows
    while True:  # read further back until there are enough
        begin = max(end - ids, 0)
        found = list(_read_json(options, selection, begin, end))
        if len(found) >= options.infer_rows or not begin or ids >= limits.INFER_IDS_MAX:
            yield from found
            return
        ids *= 16


def _read_json(options: ReadOptions, selection: Selection, after: int, until: int) -> Iterator[bytes]:
    left = options.infer_rows
    columns = ("kind", "content_type", "data")
    for batch in read_span(options.server, selection, columns, Point(after), Point(until), limits.INFER_PAGE_BYTES):
        messages = batch.column("data").filter(find_json(batch)).to_pylist()[:left]
        yield from messages
        left -= len(messages)
        if not left:
            return


def merge_messages(messages: Iterable[bytes]) -> t.StructType:
    """Return the schema that all these messages have in common. What is not a JSON object is skipped."""
    merged: t.DataType = t.NullType()
    for message in messages:
        try:
            value = json.loads(message)  # exact for large integers, unlike msgspec
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            merged = merge(merged, infer_type(value))
    found = _complete(merged)
    return found if isinstance(found, t.StructType) else t.StructType([])


def infer_type(value: Any) -> t.DataType:
    """Return the type of one value; `NullType` for null."""
    if value is None:
        return t.NullType()
    if isinstance(value, bool):
        return t.BooleanType()
    if isinstance(value, int):
        digits = len(str(abs(value)))
        if -(2**63) <= value < 2**63:
            return t.LongType()
        return t.DecimalType(digits, 0) if digits <= DIGITS_MAX else t.DoubleType()
    if isinstance(value, float):
        return t.DoubleType()
    if isinstance(value, str):
        return t.StringType()
    if isinstance(value, list):
        inner: t.DataType = t.NullType()
        for one in value:
            inner = merge(inner, infer_type(one))
        return t.ArrayType(inner)
    return t.StructType([t.StructField(name, infer_type(one)) for name, one in sorted(value.items())])


def merge(one: t.DataType, other: t.DataType) -> t.DataType:
    """Return a type for values of both types. Types that have nothing in common become STRING."""
    if one == other or isinstance(other, t.NullType):
        return one
    if isinstance(one, t.NullType):
        return other
    if isinstance(one, t.StructType) and isinstance(other, t.StructType):
        types = {field.name: field.dataType for field in one.fields}
        for field in other.fields:
            types[field.name] = merge(types.get(field.name, t.NullType()), field.dataType)
        return t.StructType([t.StructField(name, type_) for name, type_ in sorted(types.items())])
    if isinstance(one, t.ArrayType) and isinstance(other, t.ArrayType):
        return t.ArrayType(merge(one.elementType, other.elementType))
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
        return _merge_numbers(one, other)
    return t.StringType()


_NUMBERS = (t.LongType, t.DoubleType, t.DecimalType)


def _merge_numbers(one: t.DataType, other: t.DataType) -> t.DataType:
    if isinstance(one, t.DoubleType) or isinstance(other, t.DoubleType):
        return t.DoubleType()
    return t.DecimalType(
        max(type_.precision if isinstance(type_, t.DecimalType) else LONG_DIGITS for type_ in (one, other)), 0
    )


def _complete(type_: t.DataType) -> t.DataType | None:
    """Return a type that Spark can read: null becomes STRING, and structs without fields are left out."""
    if isinstance(type_, t.NullType):
        return t.StringType()
    if isinstance(type_, t.ArrayType):
        inner = _complete(type_.elementType)
        return None if inner is None else t.ArrayType(inner)
    if isinstance(type_, t.StructType):
        types = [(field.name, _complete(field.dataType)) for field in type_.fields]
        fields = [t.StructField(name, inner) for name, inner in types if inner is not None]
        return t.StructType(fields) if fields else None
    return type_
