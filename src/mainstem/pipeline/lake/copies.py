"""Copies runs of the log into files: planned on the driver, read and written by Spark tasks, and told back as facts.

Rows go from the server's Arrow pages straight into a file. Nothing of them passes through Java or the driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.log_reader import Selection, check_history, read_head, read_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FACTS = pa.schema([pa.field("facts", pa.binary())])


class WrittenFile(msgspec.Struct, frozen=True):
    """What a task tells of a file that it has written."""

    path: str
    """Below the place that the files are for."""
    size: int
    rows: int
    first: int
    """The lowest committed id in it."""
    last: int
    since_us: int
    """The earliest time of a commit in it."""
    until_us: int
    partition: dict[str, str] = {}


class Extent:
    """From where to where the rows of a file go."""

    def __init__(self) -> None:
        self.rows = 0
        self._ids: tuple[int, int] | None = None
        self._times: tuple[int, int] | None = None

    def add(self, ids: pa.Array, times: pa.Array) -> None:
        self.rows += len(ids)
        self._ids = _widen(self._ids, ids)
        self._times = _widen(self._times, times.cast(pa.int64()))

    def describe(self, path: str, size: int, partition: dict[str, str] | None = None) -> WrittenFile:
        assert self._ids is not None
        assert self._times is not None
        return WrittenFile(path, size, self.rows, *self._ids, *self._times, partition or {})


def _widen(known: tuple[int, int] | None, values: pa.Array) -> tuple[int, int]:
    found: Any = pc.min_max(values).as_py()
    if known is None:
        return found["min"], found["max"]
    return min(known[0], found["min"]), max(known[1], found["max"])


@dataclass(frozen=True)
class Piece:
    """The rows of one task: `after` < committed_id <= `until`."""

    number: int
    after: int
    until: int


@dataclass(frozen=True)
class Run:
    """What is copied and made known in one step."""

    after: int
    until: int
    rows: int
    """Before any filter."""
    pieces: tuple[Piece, ...]


class FileWriter(Protocol):
    """Takes the rows of one piece."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> list[WrittenFile]:
        """Everything is in its file now, and on disk."""


@dataclass(frozen=True)
class Reading:
    """What tasks read, and from whom."""

    server: ServerOptions
    selection: Selection
    columns: tuple[str, ...]
    known_pruned: int | None
    """What was pruned when the copy began; None if it does not matter what was lost."""


def plan_run(client: HttpClient, after: int, head: int, rows_max: int, tasks: int) -> Run:
    """The next run behind `after`: of bounded size, in pieces of about as many rows each."""
    rows, until = _measure(client, after, head, rows_max)
    share = max(-(-rows // max(tasks, 1)), limits.COPY_PIECE_ROWS_MIN)
    ends = [after]
    while ends[-1] < until and len(ends) < tasks:
        ends.append(_measure(client, ends[-1], until, share)[1])
    if ends[-1] < until:
        ends.append(until)
    pieces = [Piece(number, *pair) for number, pair in enumerate(itertools.pairwise(ends))]
    return Run(after, until, rows, tuple(pieces))


def _measure(client: HttpClient, after: int, until: int, rows: int) -> tuple[int, int]:
    """How many rows there are up to the id that is at most so many rows away, and that id."""
    query = [("after", after), ("until", until), ("rows", rows), ("bytes", limits.COPY_BYTES)]
    found = client.get_json("/v1/log/bounds", [(name, str(value)) for name, value in query])
    return int(found["rows"]), min(max(int(found["until"]), after + 1), until)


def count_slots(spark: SparkSession) -> int:
    """How many tasks run at a time; a Spark Connect server does not tell."""
    context = getattr(spark, "_sc", None)
    slots = limits.BATCH_SPLITS if context is None else int(context.defaultParallelism)
    return min(slots, limits.COPY_TASKS_MAX)


def copy_run(
    spark: SparkSession, reading: Reading, run: Run, open_writer: Callable[[Piece], FileWriter]
) -> list[WrittenFile]:
    """Let Spark's tasks copy a run. What a failed or killed task has written is in no answer, and so in no table."""
    count = len(run.pieces)
    task = _Task(reading, run.pieces, open_writer)
    told = spark.range(0, count, 1, count).mapInArrow(task.copy, "facts binary").collect()
    return sorted(
        (msgspec.json.decode(row["facts"], type=WrittenFile) for row in told), key=lambda file: (file.first, file.path)
    )


class _Task:
    def __init__(self, reading: Reading, pieces: tuple[Piece, ...], open_writer: Callable[[Piece], FileWriter]) -> None:
        self._reading = reading
        self._pieces = pieces
        self._open_writer = open_writer

    def copy(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                facts = [msgspec.json.encode(file) for file in self._copy_piece(self._pieces[number])]
                yield pa.RecordBatch.from_arrays([pa.array(facts, pa.binary())], schema=FACTS)

    def _copy_piece(self, piece: Piece) -> list[WrittenFile]:
        reading = self._reading
        writer = self._open_writer(piece)
        for batch in read_range(
            reading.server, reading.selection, reading.columns, piece.after, piece.until, limits.LOG_READ_BYTES
        ):
            writer.write(batch)
        written = writer.close()
        if reading.known_pruned is not None:
            with HttpClient(reading.server) as client:  # it may have been pruned while it was read
                check_history(read_head(client), reading.known_pruned, piece.after)
        return written
