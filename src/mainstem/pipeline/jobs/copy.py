"""Copies the log into files for archive and export, in bounded batches.

The driver plans a batch. Spark's tasks read its rows from the server's Arrow pages and write them straight into files,
so that no row passes through Java or the driver. A small batch needs no Spark: this process does the work of the tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.lake.files import WrittenFile
from mainstem.pipeline.log_reader import Position, Selection, check_history, check_position, read_head, read_range
from mainstem.pipeline.read_ahead import read_ahead
from mainstem.pipeline.spark.master import choose_master, count_cores
from mainstem.pipeline.spark.session import count_task_slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITTEN = pa.schema([pa.field("written", pa.binary())])


@dataclass(frozen=True)
class Split:
    """The rows of one task: `after` < committed_id <= `until`."""

    after: int
    until: int


@dataclass(frozen=True)
class CopyBatch:
    """The rows that are copied, and then committed, together."""

    after: int
    until: int
    rows: int
    """The number of rows before any filter."""
    splits: tuple[Split, ...]


class SplitWriter(Protocol):
    """Writes the rows of one split."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> list[WrittenFile]:
        """Flush all files to disk."""


OpenWriter = Callable[[], SplitWriter]


@dataclass(frozen=True)
class CopySource:
    """What tasks read, and from which server."""

    server: ServerOptions
    selection: Selection
    columns: tuple[str, ...]
    known_pruned: int | None
    """The highest id that was pruned when the copy began; None accepts lost rows."""
    head: Position
    """The head of the log when the copy began."""


class CopyCounts(Protocol):
    """The part of a job's summary that `copy_batches` updates."""

    rows: int
    files: int
    bytes: int
    committed_id: int


def copy_batches(
    context: JobContext,
    source: CopySource,
    open_writer: OpenWriter,
    done: CopyCounts,
    until: int,
    rows_max: int,
    *,
    local: bool = False,
) -> Iterator[tuple[CopyBatch, list[WrittenFile]]]:
    """Copy from `done.committed_id` up to `until`. The caller commits the files of each batch before it takes the next.

    A dry run counts the rows, but no files. `local` does everything in this process, with the same result.
    """
    while done.committed_id < until:
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=until)
        tasks = count_cores(choose_master(context.master)) if local else count_task_slots(context.spark)
        with context.open_client() as client:
            batch = plan_batch(client, done.committed_id, until, rows_max, tasks)
        if local:
            files = copy_batch_locally(source, batch, open_writer)
        else:
            files = copy_batch(context.spark, source, batch, open_writer)
        yield batch, files
        done.rows += sum(file.rows for file in files)
        if not context.dry_run:
            done.files += len(files)
            done.bytes += sum(file.size for file in files)
        done.committed_id = batch.until
        context.progress.show(rows=done.rows, committed_id=batch.until, head=until)


def plan_batch(client: HttpClient, after: int, head: int, rows_max: int, tasks: int) -> CopyBatch:
    """Return the next batch after `after`: of bounded size, in splits with about the same number of rows."""
    rows, until = _measure(client, after, head, rows_max)
    share = max(-(-rows // max(tasks, 1)), limits.COPY_TASK_ROWS_MIN)
    ends = [after]
    while ends[-1] < until and len(ends) < tasks:
        ends.append(_measure(client, ends[-1], until, share)[1])
    if ends[-1] < until:
        ends.append(until)
    return CopyBatch(after, until, rows, tuple(Split(*pair) for pair in itertools.pairwise(ends)))


def _measure(client: HttpClient, after: int, until: int, rows: int) -> tuple[int, int]:
    """Return the number of rows up to the id that is at most `rows` rows away, and that id."""
    query = [("after", after), ("until", until), ("rows", rows), ("bytes", limits.COPY_BYTES)]
    found = client.get_json("/v1/log/bounds", [(name, str(value)) for name, value in query])
    return int(found["rows"]), min(max(int(found["until"]), after + 1), until)


def copy_batch(spark: SparkSession, source: CopySource, batch: CopyBatch, open_writer: OpenWriter) -> list[WrittenFile]:
    """Copy a batch with Spark's tasks. The result omits files of failed tasks, so they never become visible."""
    count = len(batch.splits)
    copier = _SplitCopier(source, batch.splits, open_writer)
    written = spark.range(0, count, 1, count).mapInArrow(copier.copy, "written binary").collect()
    return _sort(msgspec.json.decode(row["written"], type=WrittenFile) for row in written)


def copy_batch_locally(source: CopySource, batch: CopyBatch, open_writer: OpenWriter) -> list[WrittenFile]:
    """Copy a batch in this process, one split after the other."""
    copier = _SplitCopier(source, batch.splits, open_writer)
    return _sort(file for split in batch.splits for file in copier.copy_split(split))


def _sort(files: Iterable[WrittenFile]) -> list[WrittenFile]:
    return sorted(files, key=lambda file: (file.first, file.path))


def is_small(client: HttpClient, after: int, until: int) -> bool:
    """Return whether the range holds less than is worth a start of Spark."""
    query = [("after", after), ("until", until), ("bytes", limits.LOCAL_BYTES_MAX)]
    found = client.get_json("/v1/log/bounds", [(name, str(value)) for name, value in query])
    return int(found["until"]) >= until


@dataclass(frozen=True)
class _SplitCopier:
    """The code of a task. It is pickled and sent to the workers."""

    source: CopySource
    splits: tuple[Split, ...]
    open_writer: OpenWriter

    def copy(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from mainstem.pipeline.spark.workers import settle_worker

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                written = [msgspec.json.encode(file) for file in self.copy_split(self.splits[number])]
                yield pa.RecordBatch.from_arrays([pa.array(written, pa.binary())], schema=WRITTEN)
        settle_worker()

    def copy_split(self, split: Split) -> list[WrittenFile]:
        source = self.source
        writer = self.open_writer()
        rows = read_range(
            source.server, source.selection, source.columns, split.after, split.until, limits.LOG_READ_BYTES
        )
        for batch in read_ahead(rows):
            writer.write(batch)
        written = writer.close()
        with HttpClient(source.server) as client:  # which may have pruned the range, or been replaced, meanwhile
            head = read_head(client, source.selection)
        check_position(head, source.head)
        if source.known_pruned is not None:
            check_history(head, source.known_pruned, split.after)
        return written
