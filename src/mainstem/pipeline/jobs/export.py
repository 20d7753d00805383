"""export: copies rows of the log into files or a Delta table, each exactly once, in bounded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Literal, Protocol

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.copy import CopyBatch, CopySource, copy_batches, is_small
from mainstem.pipeline.jobs.engines import Engine, EngineName
from mainstem.pipeline.lake.delta import LogTable
from mainstem.pipeline.lake.export_directory import TEMPORARY, ExportDirectory, Journal
from mainstem.pipeline.lake.files import FileWriter, RowCounter, WrittenFile
from mainstem.pipeline.lake.log_identity import check_last_commit, check_same_log
from mainstem.pipeline.lake.parquet_files import ParquetFileWriter
from mainstem.pipeline.lake.text_files import TextFileWriter, csv_header, encode_csv, encode_messages, encode_ndjson
from mainstem.pipeline.log_pages import log_arrow
from mainstem.pipeline.log_reader import Head, Selection, check_history, check_position, check_reached, read_head
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.pipeline.option_checks import check_globs, check_partitions

Format = Literal["parquet", "delta", "ndjson", "csv"]
APP = "mainstem-export"
CHANGEABLE = ("commit_rows", "accept_loss", "engine")
"""Options that may change between rounds, since they do not affect which rows are exported."""
ALWAYS_READ = ("committed_id", "committed_at")
"""Columns that are always read, since the ids are part of the file names."""


class ExportSummary(Summary, kw_only=True):
    """What a round has written."""

    output: str
    engine: EngineName = "local"
    """What has copied the rows; a round without rows needs no Spark."""
    files: int = 0
    bytes: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class ExportOptions:
    """Which rows are exported, and in which format."""

    format: Format
    selection: Selection = field(default_factory=Selection)
    from_id: int = 1
    to_id: int | None = None
    columns: tuple[str, ...] = ()
    schema: str | None = None
    """Typed fields of JSON messages, as Spark DDL."""
    messages: bool = False
    """Write only the messages themselves, one per line."""
    commit_rows: int = limits.COPY_ROWS
    accept_loss: bool = False
    """Continue even if the log was pruned before it was exported."""
    engine: Engine = "auto"

    @property
    def request(self) -> str:
        """The options that identify the export, as JSON. The journal keeps them: with others, it is another export."""
        fixed = {name: value for name, value in asdict(self).items() if name not in CHANGEABLE}
        return msgspec.json.encode(fixed).decode()


def make_export(location: str, options: ExportOptions) -> Job:
    if options.messages and (options.format != "ndjson" or options.columns or options.schema):
        raise BadOption("--messages is for ndjson, and excludes --columns and --schema")
    for name in options.columns:
        if name not in LOG_COLUMNS:
            raise BadOption(f"--columns: there is no column {name!r}; the columns are {', '.join(LOG_COLUMNS)}")
    if options.engine == "local" and options.schema is not None:
        raise BadOption("--schema needs Spark, which parses it: leave out --engine local")
    check_globs("--stream", options.selection.streams)
    check_partitions("--partition", options.selection.partitions)
    if options.selection.matches_nothing:
        raise BadOption("the filters exclude each other: no row belongs to a stream and to a partition")
    if options.format == "delta":
        return partial(_export_delta, location=location, options=options)
    return partial(_export_files, output=ExportDirectory(location, options.format), options=options)


def _export_files(context: JobContext, output: ExportDirectory, options: ExportOptions) -> ExportSummary:
    journal = output.open(options.request)
    context.check_writable(output.location)
    with context.open_client() as client:
        head = read_head(client, options.selection)
    if journal is None:
        if options.schema:
            _choose_converter(context, options)()  # raises, if it is invalid, before the directory is claimed
        start = head.locate(options.from_id - 1)
        journal = Journal(options.request, start.committed_id, head.pruned, log=start.log, epoch=start.epoch)
        if not context.dry_run:
            output.start(journal)
    elif not context.dry_run:
        journal = output.recover(journal)
    until = _end(options, head.head)
    check_position(head, journal.position, output.location)
    check_reached(output.location, journal.until, head)
    if journal.log is None and journal.last_commit is not None:
        check_last_commit(output.location, journal.last_commit, context.server)
    if not options.accept_loss:
        check_history(head, journal.pruned, journal.until)
    done = ExportSummary(job="export", output=output.location, committed_id=journal.until, dry_run=context.dry_run)
    if journal.until < until and not context.dry_run:
        output.mark_incomplete()
    for batch, files in _copy(context, options, output.location, done, until, journal.pruned, head):
        if not context.dry_run:
            journal = output.add(files, journal, head.locate(batch.until))
    if not context.dry_run:
        output.finish(journal)
    return done


def _export_delta(context: JobContext, location: str, options: ExportOptions) -> ExportSummary:
    name = hashlib.sha256(options.request.encode()).hexdigest()[:16]
    table = LogTable(location, f"{APP}-{name}", _choose_converter(context, options)().arrow)
    context.check_writable(table.location)
    with context.open_client() as client:
        head = read_head(client, options.selection)
    check_same_log(table, context.server, head)
    after = max(table.reached_id(), options.from_id - 1)
    if table.reached_id() and not options.accept_loss:
        check_history(head, 0, after)
    done = ExportSummary(job="export", output=table.location, committed_id=after, dry_run=context.dry_run)
    if not context.dry_run:
        table.create()
    for batch, files in _copy(context, options, table.location, done, _end(options, head.head), head.pruned, head):
        if not context.dry_run:
            table.commit(files, table.reached_id(), head.locate(batch.until))
    return done


def _end(options: ExportOptions, head: int) -> int:
    return head if options.to_id is None else min(head, options.to_id)


def _copy(
    context: JobContext,
    options: ExportOptions,
    location: str,
    done: ExportSummary,
    until: int,
    pruned: int,
    head: Head,
) -> Iterator[tuple[CopyBatch, list[WrittenFile]]]:
    if done.committed_id >= until:
        return
    make_converter = _choose_converter(context, options)
    wanted = ("committed_id",) if context.dry_run else make_converter().columns
    columns = tuple(name for name in LOG_COLUMNS if name in {*wanted, *ALWAYS_READ})
    known_pruned = None if options.accept_loss else pruned
    source = CopySource(context.server, options.selection, columns, known_pruned, head.locate(head.head))
    opener = partial(open_rows, options.format, options.messages, location, make_converter)
    open_writer = open_counter if context.dry_run else opener
    local = _runs_locally(context, options, done.committed_id, until)
    done.engine = "local" if local else "spark"
    yield from copy_batches(context, source, open_writer, done, until, options.commit_rows, local=local)


def _runs_locally(context: JobContext, options: ExportOptions, after: int, until: int) -> bool:
    if options.engine != "auto":
        return options.engine == "local"
    if options.schema is not None:
        context.notify("this export uses Spark, which parses --schema")
        return False
    with context.open_client() as client:
        return is_small(client, after, until)


class RowConverter(Protocol):
    """Converts the server's batches to the columns of the files."""

    arrow: pa.Schema
    columns: tuple[str, ...]
    """What the server must send."""

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


class ColumnSelector:
    """Selects columns of the log."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.arrow = log_arrow(names)
        self.columns = tuple(name for name in LOG_COLUMNS if name in names)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(field.name).cast(field.type) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


MakeConverter = Callable[[], RowConverter]
"""It is pickled and sent to the workers, which a converter of typed columns cannot be."""


def _choose_converter(context: JobContext, options: ExportOptions) -> MakeConverter:
    """Return what makes a converter to the columns of the data source. Only for typed ones, Spark parses a schema."""
    columns = ("content_type", "data") if options.messages else options.columns
    if options.schema is None:
        return partial(ColumnSelector, columns or tuple(LOG_COLUMNS))
    from mainstem.pipeline.datasource.batch_converter import BatchConverter

    given = {"schema": options.schema} | ({"columns": ",".join(columns)} if columns else {})
    schema = context.spark.read.format("mainstem").options(**context.options, **given).load().schema
    return partial(BatchConverter, schema, None)


class OneFileWriter:
    """Writes the rows of a split into one file, or no file if no row is selected."""

    def __init__(self, open_file: Callable[[pa.Schema], FileWriter], converter: RowConverter | None) -> None:
        self._open_file = open_file
        self._converter = converter
        self._file: FileWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        converted = batch if self._converter is None else self._converter.convert(batch)
        if self._file is None:
            self._file = self._open_file(converted.schema)
        self._file.write(converted, batch.column("committed_id"), batch.column("committed_at"))

    def close(self) -> list[WrittenFile]:
        return [] if self._file is None else [self._file.close()]


def open_counter() -> OneFileWriter:
    return OneFileWriter(lambda schema: RowCounter(), None)


def open_rows(format_: Format, messages: bool, location: str, make_converter: MakeConverter) -> OneFileWriter:
    return OneFileWriter(partial(_open_file, format_, messages, location), make_converter())


def _open_file(format_: Format, messages: bool, location: str, schema: pa.Schema) -> FileWriter:
    if format_ == "delta":
        return ParquetFileWriter(location, "", schema)
    if format_ == "parquet":
        return ParquetFileWriter(location, TEMPORARY, schema)
    if format_ == "csv":
        return TextFileWriter(location, TEMPORARY, format_, encode_csv, csv_header(schema))
    return TextFileWriter(location, TEMPORARY, format_, encode_messages if messages else encode_ndjson)
