"""The files of an import, read without Spark: the same rows in the same order, in the same batches and tasks.

Spark cuts a file into tasks, and the rows of a task into Arrow batches. Both decide which rows share a request, so that
they are repeated here: an import that began here continues in Spark, and the other way round.
"""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake import csv_rows
from mainstem.pipeline.lake.delta import load_table
from mainstem.pipeline.lake.import_source import ImportSource, SourceFile, read_parquet_schema
from mainstem.pipeline.lake.spark_types import (
    SparkNeeded,
    describe_schema,
    encode_fields,
    make_field,
    parse_ddl,
    parse_schema,
)

Batches = Iterator[pa.RecordBatch]

BATCH_ROWS = 50_000
"""`spark.sql.execution.arrow.maxRecordsPerBatch` of an import."""
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
OTHER_CODECS = (".deflate", ".snappy", ".lz4", ".lzo")
BOM = b"\xef\xbb\xbf"
LOGICAL_TYPES = frozenset({"NONE", "STRING", "INT", "DECIMAL", "DATE", "TIMESTAMP"})
SPARK_METADATA = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Marks of files with the dates of an older calendar, which Spark converts."""


def infer_schema(source: ImportSource, files: list[SourceFile]) -> str | None:
    """Return the schema that Spark would find, as JSON."""
    if source.format == "ndjson":
        return None
    if source.schema is not None:
        return parse_ddl(source.schema)
    if source.format == "delta":
        table = load_table(source.location, source.version)
        if table.metadata().partition_columns:
            raise SparkNeeded("the Delta table has partitions")
        return describe_schema(pa.schema(table.schema().to_arrow()))
    if source.format == "parquet":
        return describe_schema(_read_schema(source, files[0]))
    return _infer_csv(source, files)


def read_tasks(
    source: ImportSource, schema: str | None, file: SourceFile, target: Mapping[str, str]
) -> Iterator[Batches]:
    """Yield the batches of each task that Spark would make of a file. They must be read in turn."""
    if source.format == "ndjson":
        return _read_lines(file, target)
    assert schema is not None
    if source.format == "csv":
        return iter([_read_csv(source, schema, file)])
    return _read_parquet(source, parse_schema(schema), file)


def read_columns(source: ImportSource, schema: str | None, target: Mapping[str, str]) -> pa.Schema:
    """Return the columns of the batches."""
    if source.format != "ndjson":
        assert schema is not None
        return parse_schema(schema)
    return _line_schema(target)


def _rebatch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """Cut the rows into batches as Spark does: of `BATCH_ROWS`, except for the last."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= BATCH_ROWS:
            table = pa.Table.from_batches(waiting, schema)
            yield table.slice(0, BATCH_ROWS).combine_chunks().to_batches()[0]
            waiting = table.slice(BATCH_ROWS).to_batches()
            rows -= BATCH_ROWS
    if rows:
        yield pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()[0]


# Text


def _read_bytes(file: SourceFile) -> Iterator[bytes]:
    ending = posixpath.splitext(file.path)[1].lower()
    if ending in OTHER_CODECS or (ending == ".bz2" and file.size > limits.IMPORT_SPLIT_BYTES):
        raise SparkNeeded(f"a file is compressed as {ending}")
    system, path = open_location(file.path)
    with system.open_input_stream(path, compression=CODECS.get(ending)) as stream:
        try:
            while data := stream.read(limits.IMPORT_READ_BYTES):
                yield data
        except OSError:
            raise BadOption(f"cannot read {file.path}: it is damaged") from None


def _iter_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the position and the content of each line, which ends with LF, CR or CRLF."""
    rest = b""
    position = 0
    for chunk in itertools.chain(chunks, [b""]):
        data = rest + chunk
        rest = b""
        lines = data.splitlines(keepends=True)
        if chunk and lines and not lines[-1].endswith(b"\n"):  # CR may be the first half of CRLF
            rest = lines.pop()
        for line in lines:
            yield position, line.rstrip(b"\r\n") if line.endswith((b"\n", b"\r")) else line
            position += len(line)


def _read_lines(file: SourceFile, target: Mapping[str, str]) -> Iterator[Batches]:
    """Yield one task per split. A line belongs to the split in which it begins; one at its very end, to that before."""
    compressed = posixpath.splitext(file.path)[1].lower() in CODECS
    splits = 1 if compressed else -(-file.size // limits.IMPORT_SPLIT_BYTES)
    schema = _line_schema(target)

    def find_split(line: tuple[int, bytes]) -> int:
        return 0 if compressed or not line[0] else (line[0] - 1) // limits.IMPORT_SPLIT_BYTES

    made = 0
    for split, lines in itertools.groupby(_iter_lines(_read_bytes(file)), find_split):
        yield from (iter(()) for _ in range(made, split))  # a line may be longer than a split
        yield _rebatch(_batch_lines(lines, target, schema), schema)
        made = split + 1
    yield from (iter(()) for _ in range(made, splits))


def _batch_lines(lines: Iterable[tuple[int, bytes]], target: Mapping[str, str], schema: pa.Schema) -> Batches:
    kept = (line.removeprefix(BOM) if not position else line for position, line in lines)
    wanted = (line for line in kept if line.strip(b" "))
    for batch in _chunked(wanted, BATCH_ROWS):
        columns: list[list[Any]] = [batch]
        names = [(option, target[option]) for option in _column_options(target)]
        if names:
            objects = [_parse_object(line) for line in batch]
            columns += [[_find_value(object_, *name) for object_ in objects] for name in names]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunked(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


def _column_options(target: Mapping[str, str]) -> list[str]:
    """Return the options that name a field of each line."""
    return [option for option in ("streamColumn", "idColumn", "partitionColumn") if option in target]


def _line_schema(target: Mapping[str, str]) -> pa.Schema:
    fields = [pa.field("value", pa.binary())]
    for option in _column_options(target):
        several = pa.list_(pa.field("element", pa.string()))
        fields.append(pa.field(target[option], several if option == "partitionColumn" else pa.string()))
    return pa.schema(fields)


def _parse_object(line: bytes) -> list[tuple[str, Any]]:
    try:
        found = json.loads(line, object_pairs_hook=list)
    except ValueError:
        raise SparkNeeded("a line is not JSON") from None
    if not line.lstrip().startswith(b"{"):
        raise SparkNeeded("a line is not a JSON object")
    return found  # type: ignore[no-any-return]


def _find_value(pairs: list[tuple[str, Any]], option: str, name: str) -> Any:
    """Return the first value of this name, as Spark's `get_json_object` does."""
    value = next((value for key, value in pairs if key == name), None)
    if option == "partitionColumn":
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return value
        if isinstance(value, str) and not value.startswith("["):
            return [value]
    elif value is None or isinstance(value, str):
        return value
    raise SparkNeeded(f"the field {name!r} of a line is not text")


# CSV


def _parse_csv(file: SourceFile) -> list[csv_rows.Row]:
    data = b"".join(_read_bytes(file))
    if len(data) > limits.LOCAL_BYTES_MAX:
        raise SparkNeeded("a CSV file is large when decompressed")
    return csv_rows.split_rows(data)


def _infer_csv(source: ImportSource, files: list[SourceFile]) -> str:
    names = csv_rows.name_columns(_parse_csv(files[0]), header=source.header)
    if not source.infer:
        return encode_fields([make_field(name, "string") for name in names])
    rows = (
        row for file in files for row in csv_rows.check_rows(_parse_csv(file), names, file.path, header=source.header)
    )
    return csv_rows.infer_types(names, rows)


def _read_csv(source: ImportSource, schema: str, file: SourceFile) -> Batches:
    fields = msgspec.json.decode(schema)["fields"]
    names = [field["name"] for field in fields]
    parsers = [csv_rows.make_parser(field["name"], field["type"]) for field in fields]
    arrow = parse_schema(schema)
    rows = csv_rows.check_rows(_parse_csv(file), names, file.path, header=source.header)
    for first in range(0, len(rows), BATCH_ROWS):
        columns = zip(*rows[first : first + BATCH_ROWS], strict=True)
        arrays = [
            pa.array([parse(value) if value else None for value in column], field.type)
            for column, parse, field in zip(columns, parsers, arrow, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


# Parquet


def _read_schema(source: ImportSource, file: SourceFile) -> pa.Schema:
    """Return the columns of a Parquet file, if Spark sees the same ones."""
    system, path = open_location(file.path)
    schema = read_parquet_schema(system, path)
    if source.format == "parquet" and any("=" in part for part in posixpath.dirname(path).split("/")):
        raise SparkNeeded("names of directories may be columns")
    with pq.ParquetFile(path, filesystem=system) as opened:
        metadata = opened.metadata.metadata or {}
        version = metadata.get(b"org.apache.spark.version", b"4")
        if any(mark in metadata for mark in SPARK_METADATA) or version.startswith((b"1", b"2")):
            raise SparkNeeded("an older Spark wrote a file")
        for number in range(opened.metadata.num_columns):
            column = opened.schema.column(number)
            kind = column.logical_type.type
            if column.physical_type == "INT96" or kind not in LOGICAL_TYPES:
                raise SparkNeeded(f"the Parquet column {column.path} has the type {kind} {column.physical_type}")
            if column.max_repetition_level and not {"list", "key_value", "entries"} & set(column.path.split(".")):
                raise SparkNeeded(f"the Parquet column {column.path} is a list of an older form")
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise SparkNeeded("columns of a Parquet file have the same names")
    return pa.schema([field.with_nullable(True) for field in schema])


def _read_parquet(source: ImportSource, schema: pa.Schema, file: SourceFile) -> Iterator[Batches]:
    """Yield one task per split. A row group belongs to the split that holds its middle."""
    found = _read_schema(source, file)
    known = {name.lower() for name in found.names}
    present = [field for field in schema if field.name in found.names]
    for field in schema:
        if field.name not in found.names and field.name.lower() in known:
            raise SparkNeeded("Parquet files write the same column names differently")
    for field in present:
        if parse_schema(describe_schema(pa.schema([found.field(field.name)]))).field(0).type != field.type:
            raise SparkNeeded(f"the column {field.name!r} has another type in {file.path}")
    system, path = open_location(file.path)
    with pq.ParquetFile(path, filesystem=system) as opened:
        groups = range(opened.metadata.num_row_groups)
        splits = -(-file.size // limits.IMPORT_SPLIT_BYTES)
        middles = [_find_middle(opened.metadata.row_group(group)) // limits.IMPORT_SPLIT_BYTES for group in groups]
        for split in range(splits):
            chosen = [group for group in groups if middles[group] == split]
            rows = opened.iter_batches(BATCH_ROWS, row_groups=chosen, columns=[field.name for field in present])
            yield _rebatch((_fit(batch, schema) for batch in rows), schema)


def _find_middle(group: Any) -> int:
    first = group.column(0)
    offsets = [first.data_page_offset]
    if first.dictionary_page_offset:
        offsets.append(first.dictionary_page_offset)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    return int(min(offsets) + size // 2)


def _fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns as Spark hands them over: a column that is missing in the file is null."""
    arrays = []
    for field in schema:
        if field.name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            arrays.append(batch.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise SparkNeeded(f"the column {field.name!r} cannot be converted") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
