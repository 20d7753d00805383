"""archive: copies the log into a Delta table, each row exactly once, in bounded batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mainstem import limits
from mainstem.errors import HistoryLost
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


DEFAULTS = ArchiveOptions()


def make_archive(location: str, options: ArchiveOptions = DEFAULTS) -> Job:
    """Return a job that copies the log into the Delta table at `location`."""
    return partial(_archive, table=open_archive(location), options=options)


def _archive(context: JobContext, table: LogTable, options: ArchiveOptions) -> ArchiveSummary:
    with context.open_client() as client:
        head = read_head(client)
    after = table.reached_id()
    check_same_log(table, context.server, head.head)
    if not options.accept_loss:
        _check_complete(head, after)
    done = ArchiveSummary(job="archive", table=table.location, committed_id=after, dry_run=context.dry_run)
    if context.dry_run:
        return _estimate(context, done, head.head, options.commit_rows)
    table.create()
    source = CopySource(context.server, Selection(), tuple(LOG_COLUMNS), None if options.accept_loss else head.pruned)
    open_writer = partial(PartitionedFilesWriter, table.location, FILE_SCHEMA)
    for batch, files in copy_batches(context, source, open_writer, done, head.head, options.commit_rows):
        table.commit(files, batch.after, batch.until)
        done.commits += 1
    if options.compact:
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=head.head, phase="compacting")
        done.compacted = table.compact()
    if options.vacuum_hours is not None:
        done.vacuumed = table.vacuum(options.vacuum_hours)
    context.details = {"table": clean_text(table.location), **table.measure()}
    return done


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
