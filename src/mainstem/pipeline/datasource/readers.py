"""Spark's two readers of the log: for one batch, and for a stream of micro-batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.batch_converter import BatchConverter
from mainstem.pipeline.datasource.filters import Scan, push_filters
from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import Selection, check_head, check_history, read_bound, read_head, read_range

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, int]
"""`committed_id` is the last id that was read. `pruned` is the highest id that was already pruned at that time."""


class Range(InputPartition):
    """The rows of one task: `after` < committed_id <= `until`."""

    def __init__(self, after: int, until: int, selection: Selection, known_pruned: int) -> None:
        super().__init__(None)
        self.after = after
        self.until = until
        self.selection = selection
        self.known_pruned = known_pruned


def plan_partitions(
    after: int, until: int, shares: int, selection: Selection, known_pruned: int
) -> list[InputPartition]:
    """Return ranges with about the same number of ids. That needs no request, and differences in size even out."""
    count = max(min(shares, until - after), 1)
    ends = [after + (until - after) * share // count for share in range(count + 1)]
    return [Range(first, last, selection, known_pruned) for first, last in itertools.pairwise(ends)]


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
        BatchConverter(schema, options.schema_column)  # raises now, on the driver, if the schema is invalid

    def read_batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        options = self.options
        converter = BatchConverter(self.schema, options.schema_column)
        rows = read_range(
            options.server, partition.selection, converter.columns, partition.after, partition.until, options.page_bytes
        )
        yield from (converter.convert(batch) for batch in rows)
        if options.fail_on_data_loss and partition.after < partition.until:
            with HttpClient(options.server) as client:  # the range may have been pruned while it was read
                check_history(read_head(client), partition.known_pruned, partition.after)


class LogReader(RangeReader, DataSourceReader):
    """Reads the log as it is now, or a range of it."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        until = limits.INTEGER_MAX if options.ending_id is None else options.ending_id
        # startingId is the first id to read, and `after` is the last one not to read.
        self.scan = Scan(max((options.starting_id or 0) - 1, 0), until, self.selection)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        self.scan, left = push_filters(self.scan, filters)
        return iter(left)

    def partitions(self) -> list[InputPartition]:
        scan = self.scan
        with HttpClient(self.options.server) as client:
            head = read_head(client)
            if self.options.fail_on_data_loss and self.options.starting_id is not None:
                check_history(head, 0, scan.after)
            after = head.head if self.options.starting_latest else scan.after
        until = min(scan.until, head.head)
        if scan.matches_nothing or scan.selection.matches_nothing or after >= until:
            return [Range(0, 0, scan.selection, 0)]
        shares = self.options.splits or limits.BATCH_SPLITS
        return plan_partitions(after, until, shares, scan.selection, head.pruned)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.read_batches(partition)


class LogStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the log. The checkpoint holds one committed id for all streams and partitions."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.ending_id is not None:
            raise BadOption("endingId is for batch reads; a stream ends with its trigger")
        self._client: HttpClient | None = None
        self._available_now_head: int | None = None

    @property
    def client(self) -> HttpClient:
        if self._client is None:
            self._client = HttpClient(self.options.server)
        return self._client

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()

    def initialOffset(self) -> Offset:
        head = read_head(self.client)
        if self.options.starting_latest:
            return _offset(head.head, head.pruned)
        after = max((self.options.starting_id or 0) - 1, 0)
        if self.options.fail_on_data_loss and self.options.starting_id is not None:
            check_history(head, 0, after)
        return _offset(after, head.pruned)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.rows_max is not None:
            return ReadMaxRows(self.options.rows_max)
        if self.options.bytes_max is not None:
            return ReadMaxBytes(self.options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now_head = read_head(self.client).head

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        head = read_head(self.client)
        after = start["committed_id"]
        if self.options.fail_on_data_loss:
            check_head(head, after)
            check_history(head, start.get("pruned", 0), after)
        until = head.head if self._available_now_head is None else min(head.head, self._available_now_head)
        if until <= after:
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if rows is not None:
            size = self.options.bytes_max  # Spark passes one limit, but the options may set both
        if rows is not None or size is not None:
            until = read_bound(self.client, after, until, rows, size)
        return _offset(until, head.pruned)

    def reportLatestOffset(self) -> Offset:
        head = read_head(self.client)
        return _offset(head.head, head.pruned)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan from the two offsets alone, so that a replay reads the same rows."""
        known = max(start.get("pruned", 0), end.get("pruned", 0))
        shares = self.options.splits or limits.STREAM_SPLITS
        return plan_partitions(start["committed_id"], end["committed_id"], shares, self.selection, known)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.read_batches(partition)

    def commit(self, end: Offset) -> None:
        """Spark calls this late, and never for the last batch, so nothing depends on it."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None}


def _offset(committed_id: int, pruned: int) -> Offset:
    return {"committed_id": committed_id, "pruned": pruned} if pruned else {"committed_id": committed_id}
