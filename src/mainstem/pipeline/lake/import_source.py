"""The files of an import: listed in a stable order, and read as DataFrames."""

from __future__ import annotations

import glob
import posixpath
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.filesystems import needs_python_readers, open_location
from mainstem.pipeline.lake.delta import load_table
from mainstem.pipeline.lake.object_files import infer_object_schema, read_parquet_objects, read_text_objects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "delta", "ndjson", "csv"]
ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
}
COMPRESSED = (".gz", ".bz2", ".zst")
CSV_OPTIONS = {"mode": "FAILFAST", "escape": '"', "multiLine": "true", "enforceSchema": "false"}
"""RFC 4180: quotes are doubled, and quoted fields may hold line breaks. A line that does not fit is an error."""
UNSUPPORTED_FEATURES = ("deletionVectors", "columnMapping", "v2Checkpoint", "typeWidening")


class SourceFile(msgspec.Struct, frozen=True):
    """A file as it was when the import was planned."""

    path: str
    size: int
    changed_ns: int


class ImportSource(msgspec.Struct, frozen=True):
    """What is imported."""

    location: str
    format: Format
    header: bool = True
    infer: bool = False
    schema: str | None = None
    version: int | None = None
    """The version of a Delta table; None is the newest."""


def guess_format(location: str) -> Format:
    """Return the format, judging by the extension of a file or of the files in a directory."""
    system, root = open_location(location)
    names = [root]
    if system.get_file_info(root).type == fs.FileType.Directory:
        if system.get_file_info(f"{root}/_delta_log").type == fs.FileType.Directory:
            return "delta"
        names = [file.path for file in _walk(system, root)]
    found = {_format_of(name) for name in names}
    if len(found) == 1 and (format_ := found.pop()) is not None:
        return format_
    raise BadOption(f"the file names at {location} do not show the format: give --format")


def _format_of(name: str) -> Format | None:
    stem, ending = posixpath.splitext(name)
    if ending in COMPRESSED:
        ending = posixpath.splitext(stem)[1]
    return ENDINGS.get(ending.lower())


def list_files(source: ImportSource) -> list[SourceFile]:
    """Return the files in the order of import: by name, or for a Delta table by the time they were added."""
    files = _list_delta(source) if source.format == "delta" else _list_plain(source)
    if len(files) > limits.IMPORT_FILES_MAX:
        raise BadOption(
            f"{source.location} has {len(files)} files, more than {limits.IMPORT_FILES_MAX}: import it in parts"
        )
    return files


def _list_plain(source: ImportSource) -> list[SourceFile]:
    system, root = open_location(source.location)
    about = system.get_file_info(root)
    if about.type == fs.FileType.Directory:
        found = _walk(system, root)
    elif about.type == fs.FileType.File:
        found = [about]
    else:
        found = system.get_file_info(sorted(glob.glob(root, recursive=True)))
    if not found:
        raise BadOption(f"there are no files at {source.location}")
    scheme, separator, _ = source.location.partition("://")
    prefix = f"{scheme}://" if separator and scheme != "file" else ""
    files = [
        SourceFile(f"{prefix}{file.path}", file.size, file.mtime_ns) for file in found if file.is_file and file.size
    ]
    return sorted(files, key=lambda file: file.path)


def _walk(system: fs.FileSystem, root: str) -> list[Any]:
    """Return the files below a directory, except for those that Spark regards as hidden, too."""
    found = system.get_file_info(fs.FileSelector(root, recursive=True))
    kept = [file for file in found if file.is_file and not _is_hidden(file.path.removeprefix(root))]
    return sorted(kept, key=lambda file: file.path)


def _is_hidden(below: str) -> bool:
    return any(part.startswith((".", "_")) and "=" not in part for part in below.split("/") if part)


def _list_delta(source: ImportSource) -> list[SourceFile]:
    table = load_table(source.location, source.version)
    features = set(table.protocol().reader_features or ())
    for feature in UNSUPPORTED_FEATURES:
        if feature in features:
            raise BadOption(
                f"the Delta table at {source.location} uses {feature}, which this job cannot read: copy the table first"
            )
    actions = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes", "modification_time"])
    rows = sorted(actions.to_pylist(), key=lambda row: (row["modification_time"], row["path"]))
    root = table.table_uri.rstrip("/")
    root = root.removeprefix("file://")
    return [SourceFile(f"{root}/{row['path']}", row["size_bytes"], row["modification_time"]) for row in rows]


def check_files(source: ImportSource, schema: str | None, files: list[SourceFile]) -> None:
    """Raise `BadOption` if a file has changed since it was planned, or has columns that would be lost."""
    for file in files:
        system, path = open_location(file.path)
        about = system.get_file_info(path)
        if about.type != fs.FileType.File:
            raise BadOption(f"{file.path} has disappeared since the import was planned: restore it")
        changed = source.format != "delta" and about.mtime_ns != file.changed_ns
        if about.size != file.size or changed:
            raise BadOption(f"{file.path} has changed since the import was planned: start again with another --name")
        if source.format == "parquet" and source.schema is None and schema is not None:
            _check_columns(file, read_parquet_schema(system, path).names, schema)


def _check_columns(file: SourceFile, names: list[str], schema: str) -> None:
    known = {field["name"] for field in msgspec.json.decode(schema)["fields"]}
    more = [name for name in names if name not in known]
    if more:
        raise BadOption(
            f"{file.path} has the column {more[0]!r}, which the first file does not have: name all columns with "
            "--schema, or import the file separately"
        )


def read_parquet_schema(system: fs.FileSystem, path: str) -> pa.Schema:
    try:
        return pq.read_schema(path, filesystem=system)
    except pa.ArrowException:
        raise BadOption(f"{path} is not a Parquet file, or it is damaged") from None


def infer_schema(spark: SparkSession, source: ImportSource, files: list[SourceFile]) -> str | None:
    """Return one schema for all files, as JSON, so that a file yields the same messages whenever it is read."""
    if source.format == "ndjson":
        return None
    if source.format == "delta" and source.schema is None:
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = load_table(source.location, source.version).schema().to_arrow()
        return str(from_arrow_schema(pa.schema(columns)).json())
    if needs_python_readers(source.location):
        return _infer_object_schema(source, files[0])
    if source.format == "csv":
        reader = spark.read.options(**CSV_OPTIONS, header=source.header, inferSchema=source.infer)
        found = (reader.schema(source.schema) if source.schema else reader).csv(
            [escape_glob(file.path) for file in files]
        )
    else:
        read_parquet_schema(*open_location(files[0].path))  # raises an error that names the file, before Spark does
        reader = spark.read.option("basePath", _base(source))
        found = (reader.schema(source.schema) if source.schema else reader).parquet(escape_glob(files[0].path))
    return found.schema.json()


def _infer_object_schema(source: ImportSource, file: SourceFile) -> str:
    if source.format == "csv":
        raise BadOption(
            f"cannot import CSV from {source.location}: copy the files to a disk that all machines share, or write "
            "s3a:// if Spark has the package hadoop-aws"
        )
    if source.schema is not None:
        from pyspark.sql.types import StructType

        return str(StructType.fromDDL(source.schema).json())
    read_parquet_schema(*open_location(file.path))
    return str(infer_object_schema(_base(source), file.path).json())


def read_file(spark: SparkSession, source: ImportSource, schema: str | None, file: SourceFile) -> DataFrame:
    from pyspark.sql.types import StructType

    path = escape_glob(file.path)
    on_objects = needs_python_readers(source.location)
    if source.format == "ndjson":
        lines = read_text_objects(spark, [file.path]) if on_objects else spark.read.text(path)
        return lines.where("trim(value) != ''")
    assert schema is not None
    struct = StructType.fromJson(msgspec.json.decode(schema))
    if on_objects:
        return read_parquet_objects(spark, _base(source), [file.path], struct)
    if source.format == "csv":
        return spark.read.schema(struct).options(**CSV_OPTIONS, header=source.header).csv(path)
    return spark.read.schema(struct).option("basePath", _base(source)).parquet(path)


def _base(source: ImportSource) -> str:
    """Return the directory below which directory names are columns (`date=2026-01-31`)."""
    system, root = open_location(source.location)
    if "://" in source.location:
        is_file = system.get_file_info(root).type == fs.FileType.File
        return posixpath.dirname(source.location) if is_file else source.location
    return root if system.get_file_info(root).type == fs.FileType.Directory else posixpath.dirname(root)


def escape_glob(path: str) -> str:
    """Escape a path, since Spark treats every path as a glob."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)
