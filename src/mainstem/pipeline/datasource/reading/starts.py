"""Where a read starts: for the log as a whole, and for streams that have a start of their own.

The driver resolves times, names and offsets to committed ids once. A streaming query keeps the result in its
checkpoint, so that it is the same after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import Head, check_history
from mainstem.streams.rules.offsets import Sentinel

STARTS_COLUMNS = ("committed_id", "stream", "offset")
"""What `Starts.select` looks at."""


@dataclass(frozen=True)
class Starts:
    """Which rows are delivered while some streams have a start of their own."""

    others: int
    """All other rows are delivered after this committed id."""
    streams: Mapping[str, int | str]
    """By path: the first committed id to deliver, or the first offset."""
    settled: int
    """After this committed id, all rows are delivered."""

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch, which is in the order of the log, that are delivered."""
        ids, paths, offsets = (batch.column(name) for name in STARTS_COLUMNS)
        if not batch.num_rows or ids[0].as_py() > self.settled:
            return batch
        wanted = pc.greater(ids, self.others)
        for path in pc.unique(paths).to_pylist():
            if path in self.streams:
                start = self.streams[path]
                begun = pc.greater_equal(ids, start) if isinstance(start, int) else pc.greater_equal(offsets, start)
                wanted = pc.if_else(pc.fill_null(pc.equal(paths, path), False), begun, wanted)
        return batch.filter(wanted)


@dataclass(frozen=True)
class Start:
    """The committed id after which a read starts, and what is left out at first."""

    after: int
    starts: Starts | None = None

    def describe(self) -> dict[str, Any]:
        """Return it for an offset of Spark."""
        return {"committed_id": self.after} | ({} if self.starts is None else {"starts": asdict(self.starts)})


def read_start(offset: Mapping[str, Any]) -> Start:
    """Return the start in an offset of Spark."""
    starts = offset.get("starts")
    return Start(offset["committed_id"], None if starts is None else Starts(**starts))


def resolve_start(client: HttpClient, options: ReadOptions, head: Head) -> Start:
    """Ask the server for the committed ids at which a read with these options starts."""
    if options.starting_latest:
        after = head.head
    elif options.starting_time is not None:
        after = find_id(client, time=options.starting_time) - 1
    else:
        after = max((options.starting_id or 0) - 1, 0)  # startingId is the first id to read
        if options.fail_on_data_loss and options.starting_id is not None:
            check_history(head, 0, after)
    if not options.starting_streams:
        return Start(after)
    streams: dict[str, int | str] = {}
    firsts = []
    for path, start in options.starting_streams.items():
        if start == Sentinel.BEGINNING.value:
            streams[path] = first = 0
        elif start == Sentinel.NOW.value:
            streams[path] = first = head.head + 1
        elif isinstance(start, int):
            streams[path] = first = start
        else:
            streams[path] = start
            first = find_id(client, stream=path, offset=start)
        firsts.append(first)
    return Start(max(min(after, min(firsts) - 1), 0), Starts(after, streams, max(after, *firsts)))


def resolve_end(client: HttpClient, options: ReadOptions, head: Head) -> int:
    """Return the last committed id of a batch read."""
    if options.ending_time is not None:
        return min(find_id(client, time=options.ending_time) - 1, head.head)
    return head.head if options.ending_id is None else min(options.ending_id, head.head)


def find_id(client: HttpClient, **query: str) -> int:
    """Ask the server for the id of the record at a time or offset; it is the head + 1 if there is none yet."""
    return int(client.get_json("/v1/log/id", list(query.items()))["committed_id"])
