"""Rows as bytes: an Arrow IPC stream for programs, NDJSON for people."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstem import limits
from mainstem.server.log_api.rows import Rows
from mainstem.server.log_api.selection import COLUMNS
from mainstem.streams.rules.json_mode import JSON
from mainstem.streams.rules.offsets import Offset
from mainstem.timestamps import format_time_exactly

if TYPE_CHECKING:
    import pyarrow as pa

ARROW: Final = "application/vnd.apache.arrow.stream"
NDJSON: Final = "application/x-ndjson"


def encode_rows(rows: Rows, format_: str, columns: Sequence[str]) -> bytes:
    return encode_arrow(rows, columns) if format_ == ARROW else encode_ndjson(rows, columns)


# Arrow. Work per row runs in Arrow's own code; Python only works per record.


def arrow_schema(columns: Sequence[str] = COLUMNS) -> "pa.Schema":
    import pyarrow as pa

    fields = {
        "committed_id": pa.field("committed_id", pa.int64(), nullable=False),
        "position": pa.field("position", pa.int32(), nullable=False),
        "kind": pa.field("kind", pa.string(), nullable=False),
        "stream": pa.field("stream", pa.string()),
        "offset": pa.field("offset", pa.string()),
        "producer_id": pa.field("producer_id", pa.string()),
        "partitions": pa.field("partitions", pa.list_(pa.field("item", pa.string()))),
        "id": pa.field("id", pa.string()),
        "client_id": pa.field("client_id", pa.string()),
        "content_type": pa.field("content_type", pa.string()),
        "data": pa.field("data", pa.binary(), nullable=False),
        "committed_at": pa.field("committed_at", pa.timestamp("us", tz="UTC"), nullable=False),
    }
    return pa.schema([fields[name] for name in columns])


def encode_arrow(rows: Rows, columns: Sequence[str] = COLUMNS) -> bytes:
    return write_arrow_stream([_ARROW_COLUMNS[name](rows) for name in columns], arrow_schema(columns))


def write_arrow_stream(columns: "Sequence[pa.Array]", schema: "pa.Schema") -> bytes:
    """Return an Arrow IPC stream with these columns as its only batch, or without a batch if they are empty."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if len(columns[0]):
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _of_records(rows: Rows, array: "pa.Array") -> "pa.Array":
    """Turn a column with one value per record into one with one value per row."""
    return array if isinstance(rows.record, range) else array.take(rows.record_array)


def _column(name: str, type_: str) -> Callable[[Rows], "pa.Array"]:
    def build(rows: Rows) -> "pa.Array":
        import pyarrow as pa

        return _of_records(rows, pa.array(getattr(rows, name), type=pa.type_for_alias(type_)))

    return build


def _of_topics(rows: Rows, describe: Callable[[int], str | None]) -> "pa.Array":
    """Return a column that depends on the topic alone: few values, which Arrow repeats."""
    import pyarrow as pa

    topics = list(dict.fromkeys(rows.topic))
    number = {topic: at for at, topic in enumerate(topics)}
    values = pa.array([describe(topic) for topic in topics], pa.string())
    return _of_records(rows, values.take(pa.array([number[topic] for topic in rows.topic], pa.int32())))


def _stream(rows: Rows) -> "pa.Array":
    return _of_topics(rows, lambda topic: rows.names[topic].path if topic else None)  # type: ignore[index]


def _content_type(rows: Rows) -> "pa.Array":
    return _of_topics(rows, lambda topic: rows.names[topic].content_type if topic else JSON)  # type: ignore[index]


def _offset(rows: Rows) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    lives = _of_topics(rows, lambda topic: f"{rows.names[topic].read_seq:016d}" if topic else None)  # type: ignore[index]
    positions = pc.utf8_lpad(pc.cast(pa.array(rows.start, pa.int64()), pa.string()), 16, "0")
    return pc.binary_join_element_wise(lives, positions, "_")


def _kind(rows: Rows) -> "pa.Array":
    import pyarrow as pa

    return _of_records(rows, pa.array(["stream", "event"]).take(pa.array(rows.is_event, pa.bool_()).cast(pa.int8())))


def _source_of(events: bool) -> Callable[[Rows], "pa.Array"]:
    """Return the column of the writer: the producer for streams, or the client for events."""

    def build(rows: Rows) -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(rows.is_event, pa.bool_())
        sources = pa.array(rows.source, pa.string())
        nothing = pa.scalar(None, pa.string())
        return _of_records(
            rows, pc.if_else(wanted, sources, nothing) if events else pc.if_else(wanted, nothing, sources)
        )

    return build


def _partitions(rows: Rows) -> "pa.Array":
    import pyarrow as pa

    return _of_records(rows, pa.array(rows.partitions, pa.list_(pa.field("item", pa.string()))))


def _times(rows: Rows) -> "pa.Array":
    import pyarrow as pa

    return _of_records(rows, pa.array(rows.committed_at_us, pa.int64()).cast(pa.timestamp("us", tz="UTC")))


def _plain(name: str, type_: str) -> Callable[[Rows], "pa.Array"]:
    def build(rows: Rows) -> "pa.Array":
        import pyarrow as pa

        return pa.array(getattr(rows, name), type=pa.type_for_alias(type_))

    return build


_ARROW_COLUMNS: Final[dict[str, Callable[[Rows], Any]]] = {
    "committed_id": _column("committed_id", "int64"),
    "position": _plain("position", "int32"),
    "kind": _kind,
    "stream": _stream,
    "offset": _offset,
    "producer_id": _source_of(events=False),
    "partitions": _partitions,
    "id": _column("id", "string"),
    "client_id": _source_of(events=True),
    "content_type": _content_type,
    "data": _plain("data", "binary"),
    "committed_at": _times,
}


# NDJSON


def encode_ndjson(rows: Rows, columns: Sequence[str] = COLUMNS) -> bytes:
    """Return one object per line. `data` is a string, to keep the exact bytes; what is not UTF-8 is `data_base64`."""
    wanted = set(columns)
    step = limits.LOG_LINES_AT_ONCE
    return b"".join(
        _lines.encode_lines([_as_dict(rows, row, wanted) for row in range(first, min(first + step, len(rows)))])
        for first in range(0, len(rows), step)
    )


_lines = msgspec.json.Encoder()


def _as_dict(rows: Rows, row: int, wanted: set[str]) -> dict[str, Any]:
    record = rows.record[row]
    topic, event = rows.topic[record], rows.is_event[record]
    about = None if event else rows.names[topic]
    data = rows.data[row]
    values = {
        "committed_id": rows.committed_id[record],
        "position": rows.position[row],
        "kind": "event" if event else "stream",
        "stream": None if about is None else about.path,
        "offset": None if about is None else str(Offset(about.read_seq, rows.start[row])),
        "producer_id": None if event else rows.source[record],
        "partitions": rows.partitions[record],
        "id": rows.id[record],
        "client_id": rows.source[record] if event else None,
        "content_type": JSON if about is None else about.content_type,
        "committed_at": format_time_exactly(rows.committed_at_us[record]),
    }
    values = {name: value for name, value in values.items() if name in wanted}
    if "data" in wanted:
        try:
            values["data"] = data.decode()
        except UnicodeDecodeError:
            values["data_base64"] = b64encode(data).decode()
    return values
