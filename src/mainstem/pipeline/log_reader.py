"""Reads ranges of the log as Arrow batches, page by page. A page that was cut off is requested again as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mainstem.errors import HistoryLost, OtherLog
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.log_schema import LOG_COLUMNS

ARROW = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True)
class Selection:
    """Which rows of a range are wanted. Empty means all."""

    streams: tuple[str, ...] = ()
    prefix: str = ""
    partitions: tuple[str, ...] = ()
    kind: str | None = None
    since_us: int | None = None
    before_us: int | None = None

    @property
    def matches_nothing(self) -> bool:
        """No row is of a stream and of a partition."""
        of_streams = bool(self.streams or self.prefix or self.kind == "stream")
        of_partitions = bool(self.partitions or self.kind == "event")
        return of_streams and of_partitions

    def as_query(self) -> list[tuple[str, str]]:
        query = [("stream", stream) for stream in self.streams]
        query += [("partition", partition) for partition in self.partitions]
        named = [("prefix", self.prefix), ("kind", self.kind), ("since", self.since_us), ("before", self.before_us)]
        return query + [(name, str(value)) for name, value in named if value not in ("", None)]


@dataclass(frozen=True)
class Head:
    """The newest committed id, and the highest one that was pruned."""

    head: int
    pruned: int


def read_head(client: HttpClient) -> Head:
    found = client.get_json("/v1/log/head")
    return Head(int(found["head"]), int(found["pruned"]))


def read_bound(client: HttpClient, after: int, until: int, rows: int | None, size: int | None = None) -> int:
    """The id that is about so many rows, and at most so many bytes, after `after`; always at least one further."""
    query = [("after", str(after)), ("until", str(until))]
    if rows is not None:
        query.append(("rows", str(rows)))
    if size is not None:
        query.append(("bytes", str(size)))
    found = client.get_json("/v1/log/bounds", query)
    return min(max(int(found["until"]), after + 1), until)


def read_range(
    server: ServerOptions, selection: Selection, columns: tuple[str, ...], after: int, until: int, page_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows with `after` < committed_id <= `until`, each exactly once, also if the server restarts meanwhile."""
    if selection.matches_nothing or after >= until:
        return
    fixed = [*selection.as_query(), ("until", str(until)), ("max_bytes", str(page_bytes))]
    if len(columns) < len(LOG_COLUMNS):
        fixed.append(("columns", ",".join(columns)))
    position = 0  # a large record comes in several pages
    with HttpClient(server) as client:
        while after < until:
            start = [("after", str(after)), ("position", str(position))]
            reply = client.request("GET", "/v1/log", query=[*start, *fixed], headers={"Accept": ARROW})
            with pa.ipc.open_stream(pa.py_buffer(reply.body)) as batches:
                yield from (batch for batch in batches if batch.num_rows)
            following = int(reply.headers["Log-Next"]), int(reply.headers.get("Log-Position") or 0)
            if following <= (after, position):
                raise OtherLog(f"the log at {server.url} ends at {after}, but {until} was there before")
            after, position = following


def check_head(head: Head, after: int) -> None:
    """Raise if the log ends before `after`: a log never gets shorter."""
    if head.head < after:
        raise OtherLog(
            f"the log ends at {head.head}, but this had come to {after}: it is another server, or an older backup"
        )


def check_history(head: Head, known_pruned: int, after: int) -> None:
    """Raise if anything after `after` was pruned, except for what was known to be pruned."""
    if head.pruned > max(after, known_pruned):
        raise HistoryLost(
            f"the log was pruned up to committed id {head.pruned}, but this had come to {after} only: rows are lost, "
            "unless those that went are of streams or partitions that it does not read"
        )
