"""Encodes rows as messages, one Arrow batch at a time: one JSON object per row, or the bytes of one column."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.errors import BadJson, BadOption, BadRow, EmptyArray
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.streams.rules.json_mode import parse_body

TEXT = pa.large_string()
NEEDS_ESCAPE = r'["\\\x00-\x1f]'


class Chunk(NamedTuple):
    """Some messages of one stream, encoded as in the body of an append."""

    data: memoryview
    rows: int


class MessageEncoder:
    """Makes messages of the columns that the options choose."""

    def __init__(self, names: list[str], types: list[pa.DataType], options: WriteOptions) -> None:
        self._json = options.json
        aside = {options.stream_column, options.partition_column, options.id_column} - {None}
        for name in sorted(name for name in aside if name is not None):
            if name not in names:
                raise BadOption(f"there is no column {name!r}; the columns are {', '.join(names)}")
        left = [name for name in names if name not in aside]
        self._value = options.value_column
        if self._value is None and len(left) == 1 and left[0] == "value" and _is_text(types[names.index("value")]):
            self._value = "value"
        if self._value is not None and self._value not in names:
            raise BadOption(f"there is no column {self._value!r} for valueColumn; the columns are {', '.join(names)}")
        if self._value is not None and not _is_text(types[names.index(self._value)]):
            raise BadOption(f"valueColumn: the column {self._value!r} must be of the type string or binary")
        if self._value is None and not self._json:
            raise BadOption(
                f"rows become JSON objects, but the content type is {options.content_type}: set valueColumn"
            )
        if not left:
            raise BadOption("no column is left for the message: select at least one more")
        self._columns = left

    @property
    def raw(self) -> bool:
        """Whether messages come from a column as they are, so that their JSON has not been checked yet."""
        return self._value is not None

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return one message per row, as large binary."""
        if self._value is not None:
            messages = batch.column(self._value)
            if messages.null_count:
                raise BadRow(f"the column {self._value!r} contains nulls: filter those rows out")
            return messages.cast(pa.large_binary())
        fields = [_encode_field(name, batch.column(name)) for name in self._columns]
        # Nulls are left out, as in Spark's to_json.
        inside = pc.binary_join_element_wise(*fields, pa.scalar(",", TEXT), null_handling="skip")
        return _wrap("{", inside, "}").cast(pa.large_binary())

    def chunk(self, messages: pa.Array, chunk_bytes: int) -> Iterator[Chunk]:
        """Split the messages into chunks. In JSON mode, a comma follows each message."""
        if self._json:
            comma = pa.scalar(b",", pa.large_binary())
            messages = pc.binary_join_element_wise(messages, comma, pa.scalar(b"", pa.large_binary()))
        ends = _ends(messages)
        buffer = memoryview(messages.buffers()[2]) if len(messages) and messages.buffers()[2] else memoryview(b"")
        first = 0
        while first < len(messages):
            start = int(ends[first])
            last = max(int(np.searchsorted(ends, start + chunk_bytes, side="right")) - 1, first + 1)
            last = min(last, first + limits.APPEND_MESSAGES_MAX)
            found = Chunk(buffer[start : int(ends[last])], last - first)
            if len(found.data) > limits.SINK_CHUNK_BYTES_MAX - 2:
                raise BadRow(f"a message has {len(found.data)} bytes; the limit is {limits.SINK_CHUNK_BYTES_MAX}")
            if self._json and self.raw:
                check_json(found, messages.slice(first, found.rows))
            yield found
            first = last


def check_json(chunk: Chunk, messages: pa.Array) -> None:
    """Raise `BadRow` for a message that the server would refuse later, after it was staged."""
    error = _find_json_error(bytes(chunk.data[:-1]), chunk.rows)
    if error is None:
        return
    for message in messages:  # find the invalid one; each ends with a comma
        data = message.as_py()[:-1]
        if (its_error := _find_json_error(data, 1)) is not None:
            raise BadRow(f"a message is not JSON, {its_error}: {data[:80].decode(errors='replace')!r}")
    raise BadRow(f"some messages are not JSON: {error}")


def _find_json_error(values: bytes, number: int) -> str | None:
    """Return what is wrong with this number of JSON values, which commas separate."""
    try:
        return (
            None
            if parse_body(b"[%b]" % values, messages_max=limits.INTEGER_MAX).number == number
            else "it is not one JSON value"
        )
    except EmptyArray:
        return "it is empty"
    except BadJson:
        return "it is malformed"


def _ends(messages: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    offsets = np.frombuffer(messages.buffers()[1], np.int64)
    return offsets[messages.offset : messages.offset + len(messages) + 1]


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def _encode_field(name: str, column: pa.Array) -> pa.Array:
    """Return `"name":value` for each row, and null where the value is null."""
    key = json.dumps(name, ensure_ascii=False) + ":"
    return _wrap(key, encode_values(column, name), "")


def encode_values(column: pa.Array, name: str) -> pa.Array:
    """Return each value as JSON text."""
    type_ = column.type
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return column.cast(TEXT)
    if pa.types.is_floating(type_):
        return pc.if_else(pc.is_finite(column), column.cast(TEXT), pa.scalar(None, TEXT))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _quote(column)
    if pa.types.is_timestamp(type_):
        zone = "Z" if type_.tz else ""
        utc = column.cast(pa.timestamp("us", "UTC" if type_.tz else None))
        return _wrap('"', pc.strftime(utc, format=f"%Y-%m-%dT%H:%M:%S{zone}").cast(TEXT), '"')
    if pa.types.is_date(type_):
        return _wrap('"', column.cast(pa.string()).cast(TEXT), '"')
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        raise BadOption(f"the column {name!r} is binary: make it the valueColumn, cast it, or leave it out")
    return _encode_one_by_one(column, name)


def _quote(column: pa.Array) -> pa.Array:
    text = column.cast(TEXT)
    if not pc.any(pc.match_substring_regex(text, NEEDS_ESCAPE)).as_py():
        return _wrap('"', text, '"')
    encode = msgspec.json.encode
    return pa.array([None if value is None else encode(value) for value in text.to_pylist()], pa.large_binary()).cast(
        TEXT
    )


def _wrap(before: str, text: pa.Array, after: str) -> pa.Array:
    parts = pa.scalar(before, TEXT), text, pa.scalar(after, TEXT)
    return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT))


def _encode_one_by_one(column: pa.Array, name: str) -> pa.Array:
    """Encode arrays, structs and maps, which takes Python objects."""
    if pa.types.is_map(column.type):
        values = [None if value is None else dict(value) for value in column.to_pylist()]
    else:
        values = column.to_pylist()
    try:
        texts = [None if value is None else msgspec.json.encode(value, enc_hook=_encode_odd) for value in values]
    except (TypeError, NotImplementedError):
        raise BadOption(
            f"the column {name!r} of the type {column.type} has no JSON form: cast it, or leave it out"
        ) from None
    return pa.array(texts, pa.large_binary()).cast(TEXT)


def _encode_odd(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")
