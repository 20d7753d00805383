"""Reads ranges of the log as Arrow batches, page by page. A page that was cut off is requested again."""

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
    """A filter on the rows of a range. An empty field selects all."""

    streams: tuple[str, ...] = ()
    prefix: str = ""
    partitions: tuple[str, ...] = ()
    kind: str | None = None
    since_us: int | None = None
    before_us: int | None = None

    @property
    def matches_nothing(self) -> bool:
        """Whether the filters contradict each other: no row belongs to a stream and to a partition."""
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
    """Ask the server for the head of its log."""
    found = client.get_json("/v1/log/head")
    return Head(int(found["head"]), int(found["pruned"]))


def read_bound(client: HttpClient, after: int, until: int, rows: int | None, size: int | None = None) -> int:
    """Return the id about `rows` rows, and at most `size` bytes, after `after`; it is at least `after` + 1."""
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
    """Yield the rows of `after` < committed_id <= `until`, each exactly once, even if the server restarts."""
    if selection.matches_nothing or after >= until:
        return
    fixed = [*selection.as_query(), ("until", str(until)), ("max_bytes", str(page_bytes))]
    if len(columns) < len(LOG_COLUMNS):
        fixed.append(("columns", ",".join(columns)))
    position = 0  # a large record spans several pages
    with HttpClient(server) as client:
        while after < until:
            start = [("after", str(after)), ("position", str(position))]
            reply = client.request("GET", "/v1/log", query=[*start, *fixed], headers={"Accept": ARROW})
            with pa.ipc.open_stream(pa.py_buffer(reply.body)) as batches:
                yield from (batch for batch in batches if batch.num_rows)
            following = int(reply.headers["Log-Next"]), int(reply.headers.get("Log-Position") or 0)
            if following <= (after, position):
                raise OtherLog(f"the log at {server.url} ends at committed id {after}, but it reached {until} before")
            after, position = following


def check_head(head: Head, after: int) -> None:
    """Raise `OtherLog` if the log ends before `after`: a log never gets shorter."""
    if head.head < after:
        raise OtherLog(
            f"the log ends at committed id {head.head}, but this query had read up to {after}: the url is that of "
            "another server, or the server was restored from an older backup"
        )


def check_history(head: Head, known_pruned: int, after: int) -> None:
    """Raise `HistoryLost` if anything after `after` was pruned, except for what was known to be pruned."""
    if head.pruned > max(after, known_pruned):
        raise HistoryLost(
            f"the log was pruned up to committed id {head.pruned}, but this query had only read up to {after}: rows "
            "are lost, unless all pruned rows belong to streams or partitions that it does not read"
        )
