"""Reads ranges of the log as Arrow batches, page by page. A page that was cut off is requested again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import pyarrow as pa

from mainstem.errors import HistoryLost, OtherLog
from mainstem.freed_memory import keep_freed_memory
from mainstem.log.identity import find_epoch
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.log_pages import LogPages
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.timestamps import parse_time


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


EVERYTHING = Selection()


class Position(msgspec.Struct, frozen=True):
    """A committed id that a reader has reached, the id of its log, and the epoch of the record.

    Together they name one record and everything before it. Checkpoints of older versions have only the committed id.
    """

    committed_id: int
    log: str | None = None
    epoch: str | None = None


class Point(NamedTuple):
    """A point between two rows: after `position` messages of the record that follows the committed id `after`."""

    after: int
    position: int = 0


@dataclass(frozen=True)
class Head:
    """The newest committed id, the highest one that was pruned of what is read, and the identity of the log."""

    head: int
    pruned: int
    url: str = ""
    log: str | None = None
    """None if the server is of an older version."""
    epochs: tuple[tuple[int, str], ...] = ()
    """Where each epoch begins, and its name."""
    now_us: int = 0
    """The time of the server, or of this machine if the server is of an older version."""

    def locate(self, committed_id: int) -> Position:
        return Position(committed_id, self.log, find_epoch(self.epochs, max(committed_id, 1)))


def read_head(client: HttpClient, selection: Selection = EVERYTHING) -> Head:
    """Ask the server for the head of its log, and for what was pruned of a selection."""
    if selection.matches_nothing:  # the server would refuse it
        selection = EVERYTHING
    filters = [(name, value) for name, value in selection.as_query() if name not in ("since", "before")]
    found = client.get_json("/v1/log/head", filters)
    epochs = tuple((int(epoch["after"]), str(epoch["name"])) for epoch in found.get("epochs", ()))
    now_us = parse_time(found["now"]) if "now" in found else time.time_ns() // 1000
    return Head(int(found["head"]), int(found["pruned"]), client.server.url, found.get("log"), epochs, now_us)


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
    return read_span(server, selection, columns, Point(after), Point(until), page_bytes)


def read_span(
    server: ServerOptions, selection: Selection, columns: tuple[str, ...], begin: Point, end: Point, page_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows from one point up to another, each exactly once, even if the server restarts."""
    if selection.matches_nothing:
        return
    fixed = [*selection.as_query(), ("max_bytes", str(page_bytes))]
    if len(columns) < len(LOG_COLUMNS):
        fixed.append(("columns", ",".join(columns)))
    keep_freed_memory()
    at = begin  # a large record spans several pages
    with HttpClient(server) as client:
        pages = LogPages(client)
        while at < end:
            # If only a part of the last record is left, its rows are the first ones of the page.
            within = at.after == end.after
            span = [("after", at.after), ("position", at.position), ("until", end.after + within)]
            query = [*((name, str(value)) for name, value in span), *fixed]
            batches, headers = pages.read(query)
            rows = end.position - at.position
            for batch in batches:
                wanted = batch.slice(0, rows) if within else batch
                rows -= wanted.num_rows
                if wanted.num_rows:
                    yield wanted
            following = Point(int(headers["Log-Next"]), int(headers.get("Log-Position") or 0))
            if following <= at:
                raise OtherLog(
                    f"the log at {server.url} ends at committed id {at.after}, but it reached {end.after} before"
                )
            at = following


def check_position(head: Head, position: Position, subject: str = "this query") -> None:
    """Raise `OtherLog` unless the log has the record that `subject` has reached. A position without a log passes."""
    if position.log is None or head.log is None:
        return
    if position.log != head.log:
        raise OtherLog(f"{subject} belongs to log {position.log}, but {head.url} serves log {head.log}")
    reached, epoch = position.committed_id, find_epoch(head.epochs, position.committed_id)
    if reached and epoch != position.epoch:
        raise OtherLog(
            f"{subject} has reached committed id {reached} in epoch {position.epoch} of the log, but {head.url} is in "
            f"epoch {head.epochs[-1][1]} since committed id {head.epochs[-1][0]}: it was restored from a backup, or is "
            "another copy of the log"
        )


def check_reached(subject: str, reached: int, head: Head) -> None:
    """Raise `OtherLog` if the log ends before the id that `subject` has reached: a log never gets shorter."""
    if reached > head.head:
        raise OtherLog(
            f"{subject} has reached committed id {reached}, but the log of {head.url} ends at {head.head}: that is "
            "another server, or one that was restored from an older backup"
        )


def check_history(head: Head, known_pruned: int, after: int) -> None:
    """Raise `HistoryLost` if anything after `after` was pruned, except for what was known to be pruned."""
    if head.pruned > max(after, known_pruned):
        raise HistoryLost(
            f"the streams or partitions that are read were pruned up to committed id {head.pruned}, but this query had "
            f"only read up to {after}: rows are lost"
        )
