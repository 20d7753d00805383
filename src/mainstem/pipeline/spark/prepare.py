"""Writes the class archive by running a local Spark that does a little of everything that jobs do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import JobFailed, MainstemError
from mainstem.pipeline.spark.class_archive import base_options, class_archive_path, record_options, remove_stale
from mainstem.pipeline.spark.errors import explain
from mainstem.pipeline.spark.session import JAVA_OPTIONS, find_jars, prepare_environment, session, stop_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def make_class_archive() -> Path:
    """Write a new archive and return its path. No Spark may be running in this process."""
    prepare_environment()
    java_home = Path(os.environ["JAVA_HOME"])
    archive = class_archive_path(java_home, find_jars())
    unfinished = archive.with_suffix(f".{os.getpid()}.part")
    options = {JAVA_OPTIONS: base_options(archive, java_home) + record_options(unfinished)}
    try:
        with tempfile.TemporaryDirectory(prefix="mainstem-prepare-") as folder:
            _run_spark(options, Path(folder))
        if not unfinished.is_file():
            raise JobFailed(
                "this Java has not written an archive of its classes; unset SPARK_CONF_DIR if it is set, and try again"
            )
        os.replace(unfinished, archive)
    finally:
        unfinished.unlink(missing_ok=True)
    remove_stale(archive)
    return archive


def _run_spark(options: dict[str, str], folder: Path) -> None:
    try:
        spark = session("mainstem pipeline prepare", "local[2]", work=folder, conf=options)
        _run_workload(spark, folder)
        spark.stop()
        stop_java()
    except MainstemError:
        raise
    except Exception as error:
        raise explain(error) from error


def _run_workload(spark: SparkSession, folder: Path) -> None:
    """Run rows from Python, an aggregate, files, and a streaming query with state."""
    rows = spark.range(0, 1_000, 1, 2).mapInArrow(_pass_on, "id LONG")
    rows = rows.selectExpr("id", "id % 7 AS key", "timestamp_seconds(id) AS at", "to_json(struct(id)) AS text")
    files = str(folder / "rows")
    rows.write.partitionBy("key").parquet(files)
    found = spark.read.parquet(files)
    found.groupBy("key").count().orderBy("key").collect()
    stream = spark.readStream.schema(found.schema).parquet(files).withWatermark("at", "1 minute")
    counts = stream.groupBy("key").count()
    writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
