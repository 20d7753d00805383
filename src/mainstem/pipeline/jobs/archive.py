"""archive: copies the log into a Delta table, each row exactly once, in bounded batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mainstem import limits
from mainstem.errors import BadOption, HistoryLost
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.copy import CopySource, copy_batches, plan_batch
from mainstem.pipeline.lake.archive_table import FILE_SCHEMA, open_archive
from mainstem.pipeline.lake.delta import LogTable
from mainstem.pipeline.lake.log_identity import check_same_log
from mainstem.pipeline.lake.parquet_files import PartitionedFilesWriter
from mainstem.pipeline.log_reader import Head, Selection, read_head
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.pipeline.reports import clean_text


class ArchiveSummary(Summary, kw_only=True):
    """What a round has done to the table."""

    table: str
    files: int = 0
    bytes: int = 0
    commits: int = 0
    compacted: int = 0
    """The number of small files that were merged into larger ones."""
    vacuumed: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class ArchiveOptions:
    """How the table is written and maintained."""

    compact: bool = True
    vacuum_hours: int | None = None
    accept_loss: bool = False
    commit_rows: int = limits.COPY_ROWS
    as_of: int | None = None
    """The committed id to end with; None for the head of the log."""


DEFAULTS = ArchiveOptions()


def make_archive(location: str, options: ArchiveOptions = DEFAULTS) -> Job:
    """Return a job that copies the log into the Delta table at `location`."""
    return partial(_archive, table=open_archive(location), options=options)


def _archive(context: JobContext, table: LogTable, options: ArchiveOptions) -> ArchiveSummary:
    context.check_writable(table.location)
    with context.open_client() as client:
        head = read_head(client)
    after = table.reached_id()
    check_same_log(table, context.server, head)
    until = head.head if options.as_of is None else _check_as_of(options.as_of, table, after, head)
    if not options.accept_loss:
        _check_complete(head, after)
    done = ArchiveSummary(job="archive", table=table.location, committed_id=after, dry_run=context.dry_run)
    if context.dry_run:
        return _estimate(context, done, until, options.commit_rows)
    context.check_java()
    table.create()
    known_pruned = None if options.accept_loss else head.pruned
    source = CopySource(context.server, Selection(), tuple(LOG_COLUMNS), known_pruned, head.locate(head.head))
    open_writer = partial(PartitionedFilesWriter, table.location, FILE_SCHEMA)
    for batch, files in copy_batches(context, source, open_writer, done, until, options.commit_rows):
        table.commit(files, batch.after, head.locate(batch.until))
        done.commits += 1
    if options.compact:
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=head.head, phase="compacting")
        done.compacted = table.compact()
    if options.vacuum_hours is not None:
        done.vacuumed = table.vacuum(options.vacuum_hours)
    context.details = {"table": clean_text(table.location), **table.measure()}
    return done


def _check_as_of(as_of: int, table: LogTable, reached: int, head: Head) -> int:
    """Return the id to end with. Raise `BadOption` if the log does not reach it yet, or the table is past it."""
    if as_of > head.head:
        raise BadOption(
            f"the log ends at committed id {head.head}, so it cannot be archived as of {as_of}: wait for it"
        )
    if as_of < reached:
        raise BadOption(
            f"{table.location} has already reached committed id {reached}, which is after {as_of}: archive into "
            f"another table, or read this one with read_archive(spark, table, as_of={as_of})"
        )
    return as_of


def _check_complete(head: Head, after: int) -> None:
    if head.pruned > after:
        raise HistoryLost(
            f"the log was pruned up to committed id {head.pruned}, but the archive only reaches {after}: the rows "
            "between them are lost"
        )


def _estimate(context: JobContext, done: ArchiveSummary, head: int, rows_max: int) -> ArchiveSummary:
    """Fill in what a dry run reports, from the server's counts alone."""
    with context.open_client() as client:
        while done.committed_id < head:
            batch = plan_batch(client, done.committed_id, head, rows_max, 1)
            done.rows += batch.rows
            done.commits += 1
            done.committed_id = batch.until
    return done
