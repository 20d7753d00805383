"""export: rows of the log into a directory of files or a Delta table, each exactly once, a bounded run at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.batch_converter import BatchConverter
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.lake.copies import (
    Extent,
    FileWriter,
    Piece,
    Reading,
    Run,
    WrittenFile,
    copy_run,
    count_slots,
    plan_run,
)
from mainstem.pipeline.lake.outputs import TEMPORARY, Journal, Output
from mainstem.pipeline.lake.parquet import ParquetFile
from mainstem.pipeline.lake.tables import Lake, check_place, check_same_log
from mainstem.pipeline.lake.texts import TextFile, csv_header, encode_csv, encode_messages, encode_ndjson
from mainstem.pipeline.log_reader import Selection, check_history, read_head
from mainstem.pipeline.log_schema import LOG_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Format = Literal["parquet", "delta", "ndjson", "csv"]
APP = "mainstem-export"
HOW = ("commit_rows", "accept_loss")
"""What may change from round to round: the same rows come out."""
ALWAYS = ("committed_id", "committed_at")
"""What is read in any case: files are named by the ids in them."""


class ExportSummary(Summary, kw_only=True):
    """What a round has written."""

    output: str
    files: int = 0
    bytes: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class ExportOptions:
    """What is exported, and as what."""

    format: Format
    selection: Selection = field(default_factory=Selection)
    from_id: int = 1
    to_id: int | None = None
    columns: tuple[str, ...] = ()
    schema: str | None = None
    """Typed fields of JSON messages, in Spark's words."""
    messages: bool = False
    """Only the messages themselves, one a line."""
    commit_rows: int = limits.COPY_ROWS
    accept_loss: bool = False
    """Go on with what is left if the log was pruned before it was exported."""

    @property
    def asked(self) -> str:
        """What makes it another export if it changes."""
        about = {name: value for name, value in asdict(self).items() if name not in HOW}
        return msgspec.json.encode(about).decode()


def make_export(location: str, options: ExportOptions) -> Job:
    if options.messages and (options.format != "ndjson" or options.columns or options.schema):
        raise BadOption("--messages is for ndjson, without --columns and --schema")
    for name in options.columns:
        if name not in LOG_COLUMNS:
            raise BadOption(f"--columns: there is no {name!r}; there are: {', '.join(LOG_COLUMNS)}")
    if options.selection.matches_nothing:
        raise BadOption("no row is of a stream and of a partition: the filters exclude each other")
    export = _export_delta if options.format == "delta" else _export_files
    return partial(export, location=location, options=options)


def _export_files(context: JobContext, location: str, options: ExportOptions) -> ExportSummary:
    output = Output(location, options.format)
    journal = output.open(options.asked)
    with context.open_client() as client:
        head = read_head(client)
    if journal is None:
        if options.schema:
            _schema(context, options)  # what is wrong with it is told before the place is taken
        journal = Journal(options.asked, options.from_id - 1, head.pruned)
        if not context.dry_run:
            output.start(journal)
    elif not context.dry_run:
        journal = output.recover(journal)
    until = _end(options, head.head)
    if journal.until > head.head:
        raise BadOption(
            f"{location} has come to committed id {journal.until}, but the log of {context.server.url} ends at "
            f"{head.head}: it is another server's, or an older copy"
        )
    if journal.place is not None:
        check_place(output.location, journal.place, context.server)
    if not options.accept_loss:
        check_history(head, journal.pruned, journal.until)
    done = ExportSummary(job="export", output=output.location, committed_id=journal.until, dry_run=context.dry_run)
    if journal.until < until and not context.dry_run:
        output.begin()
    for run, files in _copy(context, options, output.location, done, until, journal.pruned):
        if not context.dry_run:
            journal = output.add(files, journal, run.until)
    if not context.dry_run:
        output.finish(journal)
    return done


def _export_delta(context: JobContext, location: str, options: ExportOptions) -> ExportSummary:
    from pyspark.sql.pandas.types import to_arrow_schema

    name = hashlib.sha256(options.asked.encode()).hexdigest()[:16]
    lake = Lake(location, f"{APP}-{name}", to_arrow_schema(_schema(context, options), timezone="UTC"))
    with context.open_client() as client:
        head = read_head(client)
    check_same_log(lake, context.server, head.head)
    after = max(lake.reached(), options.from_id - 1)
    if lake.reached() and not options.accept_loss:
        check_history(head, 0, after)
    done = ExportSummary(job="export", output=lake.location, committed_id=after, dry_run=context.dry_run)
    if not context.dry_run:
        lake.create()
    for run, files in _copy(context, options, lake.location, done, _end(options, head.head), head.pruned):
        if not context.dry_run:
            lake.commit(files, lake.reached(), run.until)
    return done


def _end(options: ExportOptions, head: int) -> int:
    return head if options.to_id is None else min(head, options.to_id)


def _copy(
    context: JobContext, options: ExportOptions, location: str, done: ExportSummary, until: int, pruned: int
) -> Iterator[tuple[Run, list[WrittenFile]]]:
    """Run after run: each is written when it comes out of here, and still has to be made known."""
    if done.committed_id >= until:
        return
    schema = _schema(context, options)
    wanted = ("committed_id",) if context.dry_run else BatchConverter(schema, None).columns
    columns = tuple(name for name in LOG_COLUMNS if name in {*wanted, *ALWAYS})
    reading = Reading(context.server, options.selection, columns, None if options.accept_loss else pruned)
    opener = partial(open_rows, options.format, options.messages, location, schema)
    while done.committed_id < until:
        with context.open_client() as client:
            run = plan_run(client, done.committed_id, until, options.commit_rows, count_slots(context.spark))
        files = copy_run(context.spark, reading, run, open_tally if context.dry_run else opener)
        yield run, files
        done.rows += sum(file.rows for file in files)
        if not context.dry_run:
            done.files += len(files)
            done.bytes += sum(file.size for file in files)
        done.committed_id = run.until
        context.progress.show(rows=done.rows, committed_id=run.until, head=until)


def _schema(context: JobContext, options: ExportOptions) -> StructType:
    """The columns, as the source itself would give them."""
    columns = ("content_type", "data") if options.messages else options.columns
    given = {"columns": ",".join(columns), "schema": options.schema or ""}
    given = {name: value for name, value in given.items() if value}
    return context.spark.read.format("mainstem").options(**context.options, **given).load().schema


class File(Protocol):
    """What the rows of a piece go into."""

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None: ...

    def close(self) -> WrittenFile: ...


class Tally:
    """No file at all: the rows are only counted."""

    def __init__(self) -> None:
        self._extent = Extent()

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        self._extent.add(ids, times)

    def close(self) -> WrittenFile:
        return self._extent.describe("", 0)


class RowsOfPiece:
    """The rows of a piece in one file; none if no row of it is wanted."""

    def __init__(self, open_file: Callable[[pa.Schema], File], converter: BatchConverter | None) -> None:
        self._open_file = open_file
        self._converter = converter
        self._file: File | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        converted = batch if self._converter is None else self._converter.convert(batch)
        if self._file is None:
            self._file = self._open_file(converted.schema)
        self._file.write(converted, batch.column("committed_id"), batch.column("committed_at"))

    def close(self) -> list[WrittenFile]:
        return [] if self._file is None else [self._file.close()]


def open_tally(piece: Piece) -> FileWriter:
    return RowsOfPiece(lambda schema: Tally(), None)


def open_rows(format_: Format, messages: bool, location: str, schema: StructType, piece: Piece) -> FileWriter:
    return RowsOfPiece(partial(_open_file, format_, messages, location), BatchConverter(schema, None))


def _open_file(format_: Format, messages: bool, location: str, schema: pa.Schema) -> File:
    if format_ == "delta":
        return ParquetFile(location, "", schema)
    if format_ == "parquet":
        return ParquetFile(location, TEMPORARY, schema)
    if format_ == "csv":
        return TextFile(location, TEMPORARY, format_, encode_csv, csv_header(schema))
    return TextFile(location, TEMPORARY, format_, encode_messages if messages else encode_ndjson)
