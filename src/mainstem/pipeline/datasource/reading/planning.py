"""Divides what is read among Spark's tasks, by bytes. See docs/adr/0025-partitions-by-bytes.md."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from mainstem import limits
from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.datasource.reading.starts import Starts
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import Point, Position, Selection


@dataclass(frozen=True)
class Span:
    """The rows from one point of the log up to another."""

    begin: Point
    end: Point

    @property
    def is_empty(self) -> bool:
        return self.begin >= self.end


EMPTY = Span(Point(0), Point(0))


class Range(InputPartition):
    """The rows of one task. `starts` is None if no stream of the range has a start of its own."""

    def __init__(
        self, span: Span, selection: Selection, known_pruned: int, batch_end: Position, starts: Starts | None
    ) -> None:
        super().__init__(None)
        self.span = span
        self.selection = selection
        self.known_pruned = known_pruned
        self.batch_end = batch_end
        self.starts = starts if starts is not None and span.begin.after < starts.settled else None


def divide(
    client: HttpClient, after: int, until: int, selection: Selection, options: ReadOptions, parts: int
) -> list[Span]:
    """Ask the server how to divide the rows of `after` < committed_id <= `until`: into `minPartitions` parts, or if
    that is not set, into `parts` unless they would be tiny; and into more if they would be huge."""
    if after >= until:
        return [EMPTY]
    query = [(name, value) for name, value in selection.as_query() if name not in ("since", "before")]
    wanted = {
        "after": after,
        "until": until,
        "parts": options.min_partitions or parts,
        "min_bytes": 0 if options.min_partitions else limits.PARTITION_BYTES_MIN,
        "max_bytes": limits.PARTITION_BYTES_MAX,
        "max_rows": options.partition_rows_max,
    }
    query += [(name, str(value)) for name, value in wanted.items() if value is not None]
    found = client.get_json("/v1/log/cuts", query)
    cuts = [Point(int(cut["after"]), int(cut["position"])) for cut in found["cuts"]]
    return [Span(begin, end) for begin, end in itertools.pairwise([Point(after), *cuts, Point(until)])]
