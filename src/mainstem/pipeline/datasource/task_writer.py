"""What a task does with its rows: it encodes them, splits them into requests, and writes these into its file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.errors import BadOption, BadPath, BadRow, ValidationFailed
from mainstem.pipeline.datasource.message_encoder import MessageEncoder
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.staging_directory import StagedFileWriter
from mainstem.streams.rules.paths import check_path
from mainstem.sync.protocol.partitions import normalise

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

EVENT_ID_NAMESPACE = uuid.UUID("5ad2ea0e-2f70-5e6c-9c1e-6f0d4c1f7b0a")
"""The namespace of generated event ids."""


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise `BadOption` on the driver, before any task runs, if the columns do not fit the options."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_arrow_columns(to_arrow_schema(schema, timezone="UTC"), options)


def check_arrow_columns(arrow: pa.Schema, options: WriteOptions) -> None:
    """Do the same for the columns as Arrow types."""
    encoder = MessageEncoder(arrow.names, arrow.types, options)
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=arrow)
    if not encoder.raw:
        encoder.encode(empty)


def stage_rows(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, writer: StagedFileWriter, task_name: str
) -> None:
    """Write the rows of a task into its staged file. `task_name` must be the same when the task is repeated."""
    if options.into_events:
        _stage_events(batches, options, writer, task_name)
    elif options.stream is not None:
        buffer = AppendBuffer(options.stream, options, writer)
        for batch in batches:
            encoder = MessageEncoder(batch.schema.names, batch.schema.types, options)
            for chunk in encoder.chunk(encoder.encode(batch), options.chunk_bytes):
                buffer.add(chunk.data, chunk.rows)
        buffer.flush()
    else:
        _stage_streams(batches, options, writer)


class AppendBuffer:
    """Collects rows of one stream until they fill a request."""

    def __init__(self, name: str, options: WriteOptions, writer: StagedFileWriter) -> None:
        self._name = name
        self._json = options.json
        self._bytes_max = options.chunk_bytes
        self._writer = writer
        self._parts: list[bytes | memoryview] = []
        self._rows = 0
        self.size = 0

    def add(self, data: bytes | memoryview, rows: int) -> None:
        if self.size and (self.size + len(data) > self._bytes_max or self._rows + rows > limits.APPEND_MESSAGES_MAX):
            self.flush()
        self._parts.append(data)
        self.size += len(data)
        self._rows += rows

    def flush(self) -> None:
        if self._rows and self.size:
            if self._json:
                last = self._parts.pop()
                self._writer.write(self._name, self._rows, b"[", *self._parts, last[:-1], b"]")
            else:
                self._writer.write(self._name, self._rows, *self._parts)
        self._parts, self._rows, self.size = [], 0, 0


def _stage_streams(batches: Iterator[pa.RecordBatch], options: WriteOptions, writer: StagedFileWriter) -> None:
    """Group the rows by stream, in their order. The buffers of all streams together are bounded."""
    buffers: dict[str, AppendBuffer] = {}
    for batch in batches:
        names = batch.column(options.stream_column)
        if names.null_count:
            raise BadRow(f"the column {options.stream_column!r} of streamColumn contains nulls: filter those rows out")
        order = pc.sort_indices(names)
        batch, names = batch.take(order), names.take(order)
        encoder = MessageEncoder(batch.schema.names, batch.schema.types, options)
        encoded = encoder.encode(batch)
        for name, first, rows in _runs(names):
            if name not in buffers:
                buffers[name] = AppendBuffer(_check_stream(name), options, writer)
            for chunk in encoder.chunk(encoded.slice(first, rows), options.chunk_bytes):
                buffers[name].add(bytes(chunk.data), chunk.rows)
        if sum(buffer.size for buffer in buffers.values()) > limits.SINK_BUFFER_BYTES_MAX:
            for buffer in buffers.values():
                buffer.flush()
            buffers.clear()
    for buffer in buffers.values():
        buffer.flush()


def _runs(names: pa.Array) -> Iterator[tuple[str, int, int]]:
    """Yield each name of a sorted column, its first row, and its number of rows."""
    ends = pc.run_end_encode(names)
    first = 0
    for name, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
        yield name, first, end - first
        first = end


def _check_stream(name: str) -> str:
    try:
        check_path(name)
    except BadPath as error:
        raise BadRow(f"streamColumn contains {name[:80]!r}: {error.detail}") from None
    return name


def _stage_events(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, writer: StagedFileWriter, task_name: str
) -> None:
    """Write items of `submit_events`, as many per frame as the server accepts at once."""
    number = size = 0
    items: dict[str, bytes] = {}
    for batch in batches:
        encoder = MessageEncoder(batch.schema.names, batch.schema.types, options)
        events = encoder.encode(batch).to_pylist()
        ids = batch.column(options.id_column).to_pylist() if options.id_column else None
        partitions = _partitions(batch, options)
        for row, event in enumerate(events):
            if not event.lstrip()[:1] == b"{" or (encoder.raw and not _is_json(event)):
                raise BadRow(f"an event must be a JSON object, not {event[:80].decode(errors='replace')!r}")
            id_ = (
                str(uuid.uuid5(EVENT_ID_NAMESPACE, f"{task_name}/{number}"))
                if ids is None
                else _check_id(ids[row], options)
            )
            number += 1
            item = b'{"id":%b,"partitions":%b,"event":%b}' % (msgspec.json.encode(id_), partitions[row], event)
            full = size + len(item) > limits.SINK_SUBMIT_BYTES or len(items) >= limits.SYNC_BATCH_ITEMS_MAX
            if full or id_ in items:  # a message must not contain an id twice
                _flush_events(items, writer)
                size = 0
            items[id_] = item
            size += len(item) + 1
    _flush_events(items, writer)


def _flush_events(items: dict[str, bytes], writer: StagedFileWriter) -> None:
    if items:
        writer.write("", len(items), b"[", b",".join(items.values()), b"]")
        items.clear()


def _partitions(batch: pa.RecordBatch, options: WriteOptions) -> list[bytes]:
    """Return the list of partitions of each row, as JSON."""
    if options.partition_column is None:
        return [_check_partitions(list(options.partitions))] * batch.num_rows
    known: dict[Any, bytes] = {}
    found = []
    for value in batch.column(options.partition_column).to_pylist():
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise BadRow(
                f"partitionColumn {options.partition_column!r} contains {names!r}: use a string or an array of strings"
            )
        key = tuple(names)
        if key not in known:
            if len(known) >= limits.SINK_PARTITIONS_KNOWN_MAX:
                known.clear()
            known[key] = _check_partitions(names)
        found.append(known[key])
    return found


def _check_partitions(names: list[str]) -> bytes:
    try:
        return msgspec.json.encode(normalise(names))
    except ValidationFailed as error:
        raise BadRow(f"partitions {names!r}: {error.detail}") from None


def _check_id(value: Any, options: WriteOptions) -> str:
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limits.EVENT_ID_BYTES_MAX:
        raise BadOption(
            f"idColumn {options.id_column!r} must contain strings of 1 to {limits.EVENT_ID_BYTES_MAX} bytes, "
            f"not {value!r}"
        )
    return value


def _is_json(event: bytes) -> bool:
    try:
        msgspec.json.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
