"""The log in pieces: tasks read a range each, straight from the server's pages, and Spark gets what they make of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.pipeline.jobs.runner import Workbench, watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem.pipeline.log_pages import Selection

Work = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def cut(after: int, until: int, slots: int) -> list[tuple[int, int]]:
    """Ranges of ids: enough of them for all slots, none of them large."""
    share = -(-(until - after) // max(slots, 1))
    step = max(min(share, limits.FOLD_TASK_IDS), limits.FOLD_TASK_IDS_MIN)
    ends = [*range(after, until, step), until]
    return list(itertools.pairwise(ends))


def read_pieces(
    bench: Workbench,
    ranges: list[tuple[int, int]],
    selection: Selection,
    columns: tuple[str, ...],
    make_work: Callable[[], Work],
    schema: pa.Schema,
) -> DataFrame:
    """What `make_work()` makes of the rows of each range, as one table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.log_pages import read_range

    server = bench.server

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                after, until = ranges[number]
                rows = read_range(server, selection, columns, after, until, limits.LOG_READ_BYTES)
                yield from make_work()(rows)

    count = max(len(ranges), 1)
    numbers = bench.spark.range(0, len(ranges), 1, count)
    return numbers.mapInArrow(read, from_arrow_schema(schema))


@contextmanager
def tracked(bench: Workbench, until: int, phase: str) -> Iterator[None]:
    """Tell how many of Spark's tasks are done while an action runs; a Spark Connect server does not say."""
    context = getattr(bench.spark, "_sc", None)
    if context is None:
        yield
        return
    tracker = context.statusTracker()

    def look() -> None:
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None and stage.numTasks]
        if known:
            done = sum(stage.numCompletedTasks for stage in known) / sum(stage.numTasks for stage in known)
            bench.progress.show(rows=0, committed_id=int(until * done), head=until, phase=phase)

    with watched(look):
        yield
