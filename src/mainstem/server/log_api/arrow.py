"""The columns of rows in Arrow. Work per row runs in Arrow's own code; Python only works per record."""

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from mainstem.log.records import TopicId
from mainstem.server.log_api.rows import Rows
from mainstem.server.log_api.selection import COLUMNS
from mainstem.streams.rules.json_mode import JSON

if TYPE_CHECKING:
    import pyarrow as pa


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


def encode_arrow(rows: Rows, columns: Sequence[str] = COLUMNS) -> memoryview:
    table = ArrowColumns(rows)
    return write_arrow_stream([_ARROW_COLUMNS[name](table) for name in columns], arrow_schema(columns))


def write_arrow_stream(columns: "Sequence[pa.Array]", schema: "pa.Schema") -> memoryview:
    """Return an Arrow IPC stream with these columns as its only batch, or without a batch if they are empty."""
    import pyarrow as pa

    batches = [pa.RecordBatch.from_arrays(columns, schema=schema)] if len(columns[0]) else []
    size = schema.serialize().size + sum(map(pa.ipc.get_record_batch_size, batches)) + END_BYTES
    body = pa.allocate_buffer(size)  # of the exact size: one that grows is copied several times
    with pa.FixedSizeBufferWriter(body) as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(body)


END_BYTES: Final = 8
"""The mark at the end of an Arrow IPC stream."""


class ArrowColumns:
    """Builds the columns of rows in Arrow."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @cached_property
    def _ends(self) -> "pa.Array":
        """Where the messages of each record end, counted in rows."""
        import pyarrow as pa

        return pa.array(list(accumulate(self.rows.counts)), pa.int32())

    @cached_property
    def _offsets(self) -> "pa.Array":
        """Where each row begins in the bytes of all pieces, and where the last one ends."""
        import pyarrow as pa
        import pyarrow.compute as pc

        sizes = array("q", (0,)) + self.rows.sizes
        return pc.cumulative_sum(pa.Array.from_buffers(pa.int64(), len(sizes), [None, pa.py_buffer(sizes)]))

    def _of_records(self, values: "pa.Array") -> "pa.Array":
        """Turn a column with one value per record into one with one value per row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.rows.are_records:
            return values
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(self._ends, values))

    def _of_topics(self, describe: Callable[[int], str | None]) -> "pa.Array":
        """Return a column that depends on the topic alone: few values, which Arrow repeats."""
        import pyarrow as pa

        topics = list(dict.fromkeys(self.rows.topic))
        values = pa.array([describe(topic) for topic in topics], pa.string())
        if len(topics) == 1:
            return pa.repeat(values[0], len(self.rows))
        number = {topic: at for at, topic in enumerate(topics)}
        return self._of_records(values.take(pa.array([number[topic] for topic in self.rows.topic], pa.int32())))

    def committed_id(self) -> "pa.Array":
        import pyarrow as pa

        return self._of_records(pa.array(self.rows.committed_id, pa.int64()))

    def position(self) -> "pa.Array":
        """Number the rows of each record: the number of the row, less that of the record's first row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.rows
        if rows.are_records:
            return pa.array(rows.position, pa.int32())
        numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), len(rows)))
        before = [before + 1 for before in accumulate(rows.counts[:-1], initial=0)]
        before[0] -= rows.first_position
        return pc.subtract(numbers, self._of_records(pa.array(before, pa.int32())))

    def kind(self) -> "pa.Array":
        import pyarrow as pa

        events = self.rows.is_event
        if any(events) == all(events):
            return pa.repeat(pa.scalar("event" if any(events) else "stream"), len(self.rows))
        return self._of_records(pa.array(["stream", "event"]).take(pa.array(events, pa.bool_()).cast(pa.int8())))

    def stream(self) -> "pa.Array":
        names = self.rows.names
        return self._of_topics(lambda topic: names[TopicId(topic)].path if topic else None)

    def content_type(self) -> "pa.Array":
        names = self.rows.names
        return self._of_topics(lambda topic: names[TopicId(topic)].content_type if topic else JSON)

    def offset(self) -> "pa.Array":
        """Print each row's start as 17 digits, the first of which is 1, and replace that by the read_seq."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.rows
        if all(rows.is_event):
            return pa.nulls(len(rows), pa.string())
        begins = self._offsets
        firsts = begins.take(pa.array(list(accumulate(rows.counts[:-1], initial=0)), pa.int32()))
        shifts = pc.subtract(pa.array(rows.starts, pa.int64()), firsts)
        starts = pc.add(pc.add(self._of_records(shifts), begins[:-1]), OFFSET_DIGIT)
        digits = pc.cast(starts, pa.string())
        names = rows.names
        read_seqs = {f"{names[topic].read_seq:016d}_" if topic else None for topic in set(rows.topic)}
        if len(read_seqs) == 1:
            return pc.binary_replace_slice(digits, 0, 1, read_seqs.pop())
        lives = self._of_topics(lambda topic: f"{names[TopicId(topic)].read_seq:016d}" if topic else None)
        return pc.binary_join_element_wise(lives, pc.utf8_slice_codeunits(digits, 1), "_")

    def producer_id(self) -> "pa.Array":
        return self._source(events=False)

    def client_id(self) -> "pa.Array":
        return self._source(events=True)

    def _source(self, *, events: bool) -> "pa.Array":
        """Return the column of the writer: the producer for streams, or the client for events."""
        import pyarrow as pa

        rows = self.rows
        if events not in rows.is_event:
            return pa.nulls(len(rows), pa.string())
        sources = [
            source if is_event is events else None for source, is_event in zip(rows.source, rows.is_event, strict=True)
        ]
        return self._of_records(pa.array(sources, pa.string()))

    def id(self) -> "pa.Array":
        import pyarrow as pa

        if not any(self.rows.is_event):
            return pa.nulls(len(self.rows), pa.string())
        return self._of_records(pa.array(self.rows.id, pa.string()))

    def partitions(self) -> "pa.Array":
        import pyarrow as pa

        rows = self.rows
        type_ = pa.list_(pa.field("item", pa.string()))
        if not any(rows.is_event):
            return pa.nulls(len(rows), type_)
        values = pa.array(rows.partitions, type_)
        return values if rows.are_records else values.take(pa.array(rows.record, pa.int32()))

    def data(self) -> "pa.Array":
        """Join all pieces, and cut the separator off each row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        offsets = self._offsets.cast(pa.int32())
        values = pa.py_buffer(b"".join(self.rows.pieces))
        with_separators = pa.Array.from_buffers(pa.binary(), len(self.rows), [None, offsets.buffers()[1], values])
        return pc.binary_slice(with_separators, 0, -1)

    def committed_at(self) -> "pa.Array":
        import pyarrow as pa

        return self._of_records(pa.array(self.rows.committed_at_us, pa.int64())).cast(pa.timestamp("us", tz="UTC"))


OFFSET_DIGIT: Final = 10**16
"""Added to a position, it keeps its leading zeros when it is printed."""

_ARROW_COLUMNS: Final[dict[str, Callable[[ArrowColumns], Any]]] = {
    "committed_id": ArrowColumns.committed_id,
    "position": ArrowColumns.position,
    "kind": ArrowColumns.kind,
    "stream": ArrowColumns.stream,
    "offset": ArrowColumns.offset,
    "producer_id": ArrowColumns.producer_id,
    "partitions": ArrowColumns.partitions,
    "id": ArrowColumns.id,
    "client_id": ArrowColumns.client_id,
    "content_type": ArrowColumns.content_type,
    "data": ArrowColumns.data,
    "committed_at": ArrowColumns.committed_at,
}
