"""The log as a DataFrame: each task reads one range from the server and transforms its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.pipeline.jobs.context import JobContext, poll_while

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem.pipeline.log_reader import Selection

Transform = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def split_range(after: int, until: int, slots: int) -> list[tuple[int, int]]:
    """Return ranges of ids, one per task: enough for all task slots, and none of them large."""
    share = -(-(until - after) // max(slots, 1))
    step = max(min(share, limits.FOLD_TASK_IDS), limits.FOLD_TASK_IDS_MIN)
    ends = [*range(after, until, step), until]
    return list(itertools.pairwise(ends))


def map_ranges(
    context: JobContext,
    ranges: list[tuple[int, int]],
    selection: Selection,
    columns: tuple[str, ...],
    make_transform: Callable[[], Transform],
    schema: pa.Schema,
) -> DataFrame:
    """Return the rows of all ranges as one DataFrame, transformed by `make_transform()`. Each task reads one range."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.log_reader import read_range
    from mainstem.pipeline.read_ahead import read_ahead
    from mainstem.pipeline.spark.workers import settle_worker

    server = context.server

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                after, until = ranges[number]
                rows = read_range(server, selection, columns, after, until, limits.LOG_READ_BYTES)
                yield from make_transform()(read_ahead(rows))
        settle_worker()

    count = max(len(ranges), 1)
    numbers = context.spark.range(0, len(ranges), 1, count)
    return numbers.mapInArrow(read, from_arrow_schema(schema))


@contextmanager
def show_task_progress(context: JobContext, until: int, phase: str) -> Iterator[None]:
    """Show how many of Spark's tasks are done while an action runs. Spark Connect does not report that."""
    spark_context = getattr(context.spark, "sparkContext", None)
    if spark_context is None:
        yield
        return
    tracker = spark_context.statusTracker()

    def update() -> None:
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None and stage.numTasks]
        if known:
            done = sum(stage.numCompletedTasks for stage in known) / sum(stage.numTasks for stage in known)
            context.progress.show(rows=0, committed_id=int(until * done), head=until, phase=phase)

    with poll_while(update):
        yield
