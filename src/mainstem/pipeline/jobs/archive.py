"""archive: the log into a Delta table, each row exactly once, a bounded run of it at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mainstem import limits
from mainstem.errors import HistoryLost
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.lake.copies import Piece, Reading, copy_run, count_slots, plan_run
from mainstem.pipeline.lake.parquet import PartitionedFiles
from mainstem.pipeline.lake.tables import FILE_SCHEMA, Lake, archive_at, check_same_log
from mainstem.pipeline.log_reader import Head, Selection, read_head
from mainstem.pipeline.log_schema import LOG_COLUMNS


class ArchiveSummary(Summary, kw_only=True):
    """What a round has done to the table."""

    table: str
    files: int = 0
    bytes: int = 0
    commits: int = 0
    compacted: int = 0
    """Small files that were made into larger ones."""
    vacuumed: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class ArchiveOptions:
    """How the table is kept."""

    compact: bool = True
    vacuum_hours: int | None = None
    accept_loss: bool = False
    commit_rows: int = limits.COPY_ROWS


DEFAULTS = ArchiveOptions()


def make_archive(location: str, options: ArchiveOptions = DEFAULTS) -> Job:
    return partial(_archive, lake=archive_at(location), options=options)


def _archive(context: JobContext, lake: Lake, options: ArchiveOptions) -> ArchiveSummary:
    with context.open_client() as client:
        head = read_head(client)
    after = lake.reached()
    check_same_log(lake, context.server, head.head)
    if not options.accept_loss:
        _check_whole(head, after)
    done = ArchiveSummary(job="archive", table=lake.location, committed_id=after, dry_run=context.dry_run)
    if context.dry_run:
        return _foresee(context, done, head.head, options.commit_rows)
    lake.create()
    reading = Reading(context.server, Selection(), tuple(LOG_COLUMNS), None if options.accept_loss else head.pruned)
    while done.committed_id < head.head:
        _copy(context, lake, reading, done, head.head, options.commit_rows)
    if options.compact:
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=head.head, phase="compacting")
        done.compacted = lake.compact()
    if options.vacuum_hours is not None:
        done.vacuumed = lake.vacuum(options.vacuum_hours)
    return done


def _copy(context: JobContext, lake: Lake, reading: Reading, done: ArchiveSummary, head: int, rows_max: int) -> None:
    """One run: its files are written, then committed together with the id that they reach."""
    context.progress.show(rows=done.rows, committed_id=done.committed_id, head=head)
    with context.open_client() as client:
        run = plan_run(client, done.committed_id, head, rows_max, count_slots(context.spark))
    files = copy_run(context.spark, reading, run, partial(_open, lake.location))
    lake.commit(files, run.after, run.until)
    done.rows += sum(file.rows for file in files)
    done.bytes += sum(file.size for file in files)
    done.files += len(files)
    done.commits += 1
    done.committed_id = run.until
    context.progress.show(rows=done.rows, committed_id=run.until, head=head)


def _open(location: str, piece: Piece) -> PartitionedFiles:
    return PartitionedFiles(location, FILE_SCHEMA)


def _check_whole(head: Head, after: int) -> None:
    if head.pruned > after:
        raise HistoryLost(
            f"rows up to committed id {head.pruned} were pruned, but the archive has come to {after} only: some of "
            "them are lost"
        )


def _foresee(context: JobContext, done: ArchiveSummary, head: int, rows_max: int) -> ArchiveSummary:
    with context.open_client() as client:
        while done.committed_id < head:
            run = plan_run(client, done.committed_id, head, rows_max, 1)
            done.rows += run.rows
            done.commits += 1
            done.committed_id = run.until
    return done
