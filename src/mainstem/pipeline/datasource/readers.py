"""Spark's two readers of the log: for one batch, and for a stream of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.batch_converter import BatchConverter
from mainstem.pipeline.datasource.filters import Scan, push_filters
from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.datasource.reading.planning import EMPTY, Range, divide
from mainstem.pipeline.datasource.reading.read_limits import ReadLimits
from mainstem.pipeline.datasource.reading.starts import STARTS_COLUMNS, read_start, resolve_end, resolve_start
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import (
    Head,
    Position,
    Selection,
    check_history,
    check_position,
    check_reached,
    read_head,
    read_span,
)
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.pipeline.read_ahead import read_ahead
from mainstem.pipeline.spark.workers import settle_worker
from mainstem.pipeline.start_checks import warn_without_arrow

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, Any]
"""`committed_id` is the last id that was read, and `log` and `epoch` name the log (see `Position`). `pruned` is the
highest id that was already pruned of the selection at that time; it is absent if there was none.

`starts` is present until all streams of `startingOffsetsByStream` have started. If the start is not a fixed id, it
could be another one when Spark asks for it again: then the first offset has `first`, and the next has it as `began`."""


class RangeReader:
    """What both readers do in a task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.selection = Selection(streams=options.streams, partitions=options.partitions, kind=options.kind)
        if self.selection.matches_nothing:
            raise BadOption(
                "streams, partitions and kind exclude each other: no row belongs to a stream and to a partition"
            )
        self._make_converter()  # raises now, on the driver, if the schema is invalid

    def _make_converter(self) -> BatchConverter:
        options = self.options
        return BatchConverter(self.schema, options.schema_column, options.mode, options.corrupt_column)

    def read_batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        options, starts, span = self.options, partition.starts, partition.span
        converter = self._make_converter()
        needed = {*converter.columns, *(STARTS_COLUMNS if starts is not None else ())}
        columns = tuple(name for name in LOG_COLUMNS if name in needed)
        rows = read_span(options.server, partition.selection, columns, span.begin, span.end, options.page_bytes)
        for batch in read_ahead(rows):
            found = converter.convert(batch if starts is None else starts.select(batch))
            if found.num_rows:
                yield found
        if not span.is_empty:
            # The range may have been pruned, or the server replaced, while it was read.
            with HttpClient(options.server) as client:
                head = read_head(client, partition.selection)
            check_position(head, partition.batch_end)
            if options.fail_on_data_loss:
                check_history(head, partition.known_pruned, span.begin.after)
        settle_worker()


class LogReader(RangeReader, DataSourceReader):
    """Reads the log as it is now, or a range of it."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self.scan = Scan(0, limits.INTEGER_MAX, self.selection)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        self.scan, left = push_filters(self.scan, filters)
        return iter(left)

    def partitions(self) -> list[InputPartition]:
        warn_without_arrow(self.options.server)
        scan, selection = self.scan, self.scan.selection
        nothing: list[InputPartition] = [Range(EMPTY, selection, 0, Position(0), None)]
        if scan.matches_nothing or selection.matches_nothing:
            return nothing
        with HttpClient(self.options.server) as client:
            head = read_head(client, selection)
            start = resolve_start(client, self.options, head)
            after, until = max(scan.after, start.after), min(scan.until, resolve_end(client, self.options, head))
            if after >= until:
                return nothing
            spans = divide(client, after, until, selection, self.options, limits.BATCH_PARTITIONS)
        return [Range(span, selection, head.pruned, head.locate(until), start.starts) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.read_batches(partition)


class LogStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the log. The checkpoint holds one committed id for all streams and partitions."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.ending_id is not None or options.ending_time is not None:
            raise BadOption("endingId and endingTimestamp are for batch reads; a stream ends with its trigger")
        self._client: HttpClient | None = None
        self._available_now_head: int | None = None
        self._limits = ReadLimits(options)
        self._planned_until: int | None = None

    @property
    def client(self) -> HttpClient:
        if self._client is None:
            self._client = HttpClient(self.options.server)
        return self._client

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()

    def _read_head(self) -> Head:
        return read_head(self.client, self.selection)

    def initialOffset(self) -> Offset:
        head = self._read_head()
        start = resolve_start(self.client, self.options, head)
        first = {} if self.options.starts_at_fixed_id else {"first": True}
        return _make_offset(head, start.after) | start.describe() | first

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limits.choose_default()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now_head = self._read_head().head

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        head = self._read_head()
        after = start["committed_id"]
        check_position(head, _position(start))
        if self.options.fail_on_data_loss:
            check_reached("this query", after, head)
            check_history(head, start.get("pruned", 0), after)
        drains = self._available_now_head is not None
        until = min(head.head, self._available_now_head) if self._available_now_head is not None else head.head
        until = self._limits.choose_end(self.client, after, until, limit, may_wait=not drains)
        self._planned_until = max(until, after)
        if until <= after:
            return start
        kept: Offset = {}
        begun = read_start(start)
        if begun.starts is not None and until < begun.starts.settled:
            kept["starts"] = start["starts"]
        if "first" in start:
            kept["began"] = begun.describe()
        return _make_offset(head, until) | kept

    def reportLatestOffset(self) -> Offset:
        """Return the head of the log, and the age of the oldest message that no batch has yet. Spark shows both in the
        progress of the query."""
        offset: Offset = {"committed_id": self._read_head().head}
        if self._planned_until is not None:
            following = self.client.get_json("/v1/log/id", [("after", str(self._planned_until))])
            offset["seconds_behind"] = round(following["age_s"] or 0.0, 3)
        return offset

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan the rows between the two offsets. A replay may divide them differently, but they are the same rows."""
        warn_without_arrow(self.options.server)
        begun = read_start(end["began"] if "first" in start and "began" in end else start)
        known = max(start.get("pruned", 0), end.get("pruned", 0))
        until = end["committed_id"]
        spans = divide(self.client, begun.after, until, self.selection, self.options, limits.STREAM_PARTITIONS)
        return [Range(span, self.selection, known, _position(end), begun.starts) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.read_batches(partition)

    def commit(self, end: Offset) -> None:
        """Spark calls this late, and never for the last batch, so nothing depends on it."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None}


def _make_offset(head: Head, committed_id: int) -> Offset:
    """Return an offset. Equal positions have equal offsets, as Spark takes a different one for new data."""
    offset: Offset = {"committed_id": committed_id}
    if head.log is not None:
        offset |= {"log": head.log, "epoch": head.locate(committed_id).epoch}
    return offset | {"pruned": head.pruned} if head.pruned else offset


def _position(offset: Offset) -> Position:
    return Position(offset["committed_id"], offset.get("log"), offset.get("epoch"))
