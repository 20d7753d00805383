"""Checks that a table or export continues with the log that it was made from.

Tables and exports of older versions do not name their log, so their last rows are compared with those of the server.
"""

from __future__ import annotations

import pyarrow as pa

from mainstem import limits
from mainstem.errors import OtherLog
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.lake.delta import LastCommit, LogTable
from mainstem.pipeline.log_pages import LogPages
from mainstem.pipeline.log_reader import Head, Selection, check_position, check_reached, read_head, read_range

STATS_US = 1_000  # Delta rounds the times in its statistics down to milliseconds


def check_same_log(table: LogTable, server: ServerOptions, head: Head) -> None:
    """Raise `OtherLog` unless the table was made from this server's log: another log has other rows for its ids."""
    reached = table.reached_id()
    if not reached:
        return
    identified = check_identity(table, head)
    check_reached(table.location, reached, head)
    last_commit = None if identified else table.read_last_commit()
    if last_commit is not None:
        check_last_commit(table.location, last_commit, server)


def check_identity(table: LogTable, head: Head) -> bool:
    """Raise `OtherLog` if the table names another log or epoch. Return whether it names any."""
    reached = table.reached_id()
    if head.log is None or not reached or not table.holds_identity():
        return False
    if table.ends_at(head.locate(reached)):
        return True
    position = table.find_position()
    if position is not None:
        check_position(head, position, table.location)
    raise OtherLog(
        f"{table.location} has reached committed id {reached} of another log than that of {head.url}, or of another "
        "copy of it"
    )


def check_last_commit(location: str, last_commit: LastCommit, server: ServerOptions) -> None:
    """Raise unless the log has the last copied row or, if that was deleted since, has neighbours of a matching time."""
    with HttpClient(server) as client:
        query = [("after", last_commit.committed_id - 1), ("until", last_commit.committed_id), ("max_bytes", 1)]
        query_text = [(name, str(value)) for name, value in query] + [("columns", "committed_id,committed_at")]
        batches, _ = LogPages(client).read(query_text)
    found = [time_us for batch in batches for time_us in batch.column("committed_at").cast(pa.int64()).to_pylist()]
    for time_us in found:  # empty if the row was pruned or deleted since
        if not last_commit.since_us <= time_us < last_commit.until_us + STATS_US:
            raise OtherLog(
                f"{location} was made from another log: its last row has committed id {last_commit.committed_id}, "
                f"which {server.url} committed at another time"
            )
    if not found:
        _check_neighbours(location, last_commit, server)


def _check_neighbours(location: str, last_commit: LastCommit, server: ServerOptions) -> None:
    """Raise if a lower id was committed later than the last commit, or a higher id earlier."""
    columns = ("committed_id", "committed_at")
    first, last = max(last_commit.committed_id - limits.SAME_LOG_IDS, 0), last_commit.committed_id + limits.SAME_LOG_IDS
    with HttpClient(server) as client:
        last = min(last, read_head(client).head)
    for batch in read_range(server, Selection(), columns, first, last, limits.LOG_READ_BYTES):
        times = batch.column("committed_at").cast(pa.int64()).to_pylist()
        for committed_id, time_us in zip(batch.column("committed_id").to_pylist(), times, strict=True):
            below = committed_id <= last_commit.committed_id
            gap_us = time_us - last_commit.until_us if below else last_commit.since_us - time_us
            if gap_us > limits.SAME_LOG_SKEW_US:
                raise OtherLog(
                    f"{location} was made from another log: it ends with committed id {last_commit.committed_id}, but "
                    f"{server.url} committed {committed_id} {'later' if below else 'earlier'} than that"
                )
