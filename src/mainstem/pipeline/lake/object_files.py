"""Reads files on object stores with Arrow, in Spark's Python workers.

Spark needs Hadoop's packages for an object store, which no wheel contains. The workers have Arrow and take the
credentials of their machine.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from mainstem import limits
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.storage_errors import explain_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ReadFile = Callable[[str], Iterator[pa.RecordBatch]]


def read_parquet_objects(
    spark: SparkSession, root: str, files: list[str], schema: StructType | str | None = None
) -> DataFrame:
    """Return the rows of Parquet files, including the columns that are encoded in the paths below `root`. The schema is
    by default that of the first file."""
    from pyspark.sql.pandas.types import to_arrow_schema

    struct = _as_struct(schema) if schema is not None else infer_object_schema(root, files[0])
    arrow = to_arrow_schema(struct, timezone="UTC")

    def read(file: str) -> Iterator[pa.RecordBatch]:
        with explain_storage(file, "read"):
            rows = open_dataset(root, file, arrow).scanner(
                batch_size=limits.OBJECT_READ_ROWS, batch_readahead=1, fragment_readahead=1
            )
            for batch in rows.to_batches():
                columns = [batch.column(field.name).cast(field.type) for field in arrow]
                yield pa.RecordBatch.from_arrays(columns, schema=arrow)

    return _read_in_tasks(spark, files, read, struct)


def _as_struct(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(found, StructType)
    return found


def infer_object_schema(root: str, file: str) -> StructType:
    """Return the columns of a Parquet file and of its path."""
    from pyspark.sql.pandas.types import from_arrow_schema

    with explain_storage(file, "read"):
        return from_arrow_schema(open_dataset(root, file).schema)


def read_text_objects(spark: SparkSession, files: list[str]) -> DataFrame:
    """Return the lines of text files, in a column `value`. The ending of a file shows how it is compressed."""
    from pyspark.sql.types import StringType, StructField, StructType

    return _read_in_tasks(spark, files, read_lines, StructType([StructField("value", StringType())]))


def open_dataset(root: str, file: str, schema: pa.Schema | None = None) -> ds.Dataset:
    """Open one Parquet file. Directories below `root` that look like `date=2026-01-31` are columns."""
    system, path = open_location(file)
    base = open_location(root)[1]
    return ds.dataset(
        path,
        schema,
        "parquet",
        filesystem=system,
        partitioning="hive",
        partition_base_dir=base,
        exclude_invalid_files=False,
    )


def read_lines(file: str) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a text file as they are, even if they are not UTF-8."""
    with explain_storage(file, "read"):
        system, path = open_location(file)
        with (
            system.open_input_stream(path, compression="detect", buffer_size=limits.OBJECT_READ_BYTES) as stream,
            io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline=None) as text,
        ):
            while lines := text.readlines(limits.OBJECT_READ_BYTES):
                values = [line.rstrip("\n").encode("utf-8", "surrogateescape") for line in lines]
                # Spark's text is bytes as well; checking that it is UTF-8 is left to those who use it.
                yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary()).view(pa.string())], ["value"])


def _read_in_tasks(spark: SparkSession, files: list[str], read: ReadFile, schema: StructType) -> DataFrame:
    def read_all(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read(files[number])

    tasks = min(len(files), limits.COPY_TASKS_MAX)
    return spark.range(0, len(files), 1, tasks).mapInArrow(read_all, schema)
