"""Text files: NDJSON as in the log API, plain messages, and CSV."""

from __future__ import annotations

import math
import posixpath
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mainstem.errors import BadRow
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.files import FileStats, WrittenFile
from mainstem.pipeline.storage_errors import explain_storage
from mainstem.streams.rules.content_types import is_json

Lines = Any  # bytes, or a buffer of Arrow, which has no type hints


class TextFileWriter:
    """Writes one file of lines."""

    def __init__(
        self, location: str, folder: str, extension: str, encode: Callable[[pa.RecordBatch], Lines], header: bytes = b""
    ) -> None:
        self._location = location
        self._fs, root = open_location(location)
        self.path = posixpath.join(folder, f"{uuid.uuid4().hex}.{extension}")
        self._full_path = posixpath.join(root, self.path)
        with explain_storage(location):
            self._fs.create_dir(posixpath.dirname(self._full_path), recursive=True)
            self._file = self._fs.open_output_stream(self._full_path)
            self._file.write(header)
        self._size = len(header)
        self._encode = encode
        self._stats = FileStats()

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        lines = self._encode(batch)
        with explain_storage(self._location):
            self._file.write(lines)
        self._size += len(lines)
        self._stats.add(ids, times)

    def close(self) -> WrittenFile:
        with explain_storage(self._location):
            self._file.close()
            if self._fs.type_name == "local":
                fsync(self._full_path)
        return self._stats.describe(self.path, self._size)


def encode_ndjson(batch: pa.RecordBatch) -> bytes:
    """Encode one object per row. Bytes that are not UTF-8 become base64, under a name that ends in _base64."""
    encode = msgspec.json.Encoder().encode_lines
    return encode([_object(row) for row in batch.to_pylist()])


def _object(row: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            text, base64 = _text_or_base64(value)
            made |= {name: text} if base64 is None else {f"{name}_base64": base64}
        elif isinstance(value, float) and not math.isfinite(value):
            made[name] = None
        elif value is not None:
            made[name] = value
    return made


def _text_or_base64(value: bytes) -> tuple[str | None, str | None]:
    try:
        return value.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(value).decode()


def encode_messages(batch: pa.RecordBatch) -> bytes:
    """Encode the messages themselves as they were sent, one per line."""
    kinds = pc.unique(batch.column("content_type")).to_pylist()
    for kind in kinds:
        if kind is None or not is_json(kind):
            raise BadRow(f"a {kind} message is not a line of JSON: leave out --messages, or choose other streams")
    return b"".join(_lines(batch.column("data").to_pylist()))


def _lines(messages: list[bytes]) -> Iterator[bytes]:
    for message in messages:
        if b"\n" in message or b"\r" in message:  # they can only be white space, since strings escape them
            message = message.replace(b"\n", b" ").replace(b"\r", b" ")
        yield message
        yield b"\n"


def encode_csv(batch: pa.RecordBatch) -> pa.Buffer:
    """Encode lines without a header. Nested values become JSON; bytes that are not UTF-8 get a separate column."""
    arrays: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_binary(column.type):
            arrays[name], arrays[f"{name}_base64"] = _split_bytes(column)
        else:
            arrays[name] = _flatten(column)
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table(arrays), sink, csv.WriteOptions(include_header=False))
    return sink.getvalue()


def csv_header(schema: pa.Schema) -> bytes:
    names: list[str] = []
    for field in schema:
        names += [field.name, f"{field.name}_base64"] if pa.types.is_binary(field.type) else [field.name]
    return (",".join('"' + name.replace('"', '""') + '"' for name in names) + "\n").encode()


def _split_bytes(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    try:
        return column.cast(pa.string()), pa.nulls(len(column), pa.string())
    except pa.ArrowInvalid:
        pairs = [(None, None) if value is None else _text_or_base64(value) for value in column.to_pylist()]
        return pa.array([text for text, _ in pairs], pa.string()), pa.array([rest for _, rest in pairs], pa.string())


def _flatten(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        zone = "Z" if column.type.tz else ""
        return pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{zone}")
    if pa.types.is_nested(column.type):
        encode = msgspec.json.encode
        texts = [None if value is None else encode(value).decode() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column
