"""Writes one group of files into the log: with Spark, or without it and in the same requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import msgspec

from mainstem import limits
from mainstem.pipeline.datasource.delivery import commit_staged, open_staging
from mainstem.pipeline.datasource.options import parse_write_options
from mainstem.pipeline.datasource.staging_directory import StagedFile
from mainstem.pipeline.datasource.task_writer import check_arrow_columns, stage_rows
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.import_plan import Plan
from mainstem.pipeline.lake import local_files
from mainstem.pipeline.lake.import_source import SourceFile, read_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_CONF = {
    "spark.sql.files.maxPartitionBytes": str(limits.IMPORT_SPLIT_BYTES),
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""Settings that decide how rows are split into requests. They are fixed, so that a repeated request is identical."""


LINE_COLUMNS = ("streamColumn", "idColumn", "partitionColumn")
"""Options of the writer that name a field of a JSON line."""


class ImportWrite:
    """One group of files. Both engines write it as the same producer, and in the same requests."""

    def __init__(self, context: JobContext, plan: Plan, group: list[SourceFile], stage: str) -> None:
        self._context = context
        self._plan = plan
        self._group = group
        self._stage = stage
        self._source = plan.request.source
        self._target = plan.request.target
        if self._source.format == "ndjson":
            self._target = {"valueColumn": "value", **self._target}

    @cached_property
    def producer(self) -> str:
        """Derived from what is written and how it is split, so that the same id means the same requests."""
        spark_version = self._plan.spark_version or self._context.spark.version
        facts = [msgspec.to_builtins(self._plan.request), msgspec.to_builtins(self._group), SPLIT_CONF, spark_version]
        return f"import-{hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]}"

    @property
    def _options(self) -> dict[str, str]:
        given = {"producerId": self.producer, "stagingLocation": self._stage}
        return {**self._context.options, **self._target, **given}

    def count_in_spark(self) -> int:
        return self._read_in_spark().count()

    def write_in_spark(self) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        with _fixed_splits(self._context.spark):
            rows = self._read_in_spark().observe(seen, f.count(f.lit(1)).alias("rows"))
            rows.write.format("mainstem").mode("append").options(**self._options).save()
        return int(seen.get["rows"])

    def _read_in_spark(self) -> DataFrame:
        """Return the rows of the files, one file after the other."""
        spark, schema = self._context.spark, self._plan.schema
        files = (read_file(spark, self._source, schema, file) for file in self._group)
        rows = reduce(lambda before, after: before.unionAll(after), files)
        return _extract_columns(rows, self._target) if self._source.format == "ndjson" else rows

    def count_locally(self) -> int:
        return sum(batch.num_rows for batches in self._read_locally() for batch in batches)

    def write_locally(self) -> int:
        options = parse_write_options(self._options, streaming=False)
        check_arrow_columns(local_files.read_columns(self._source, self._plan.schema, self._target), options)
        staging = open_staging(options, self.producer)
        staged: list[StagedFile] = []
        for number, batches in enumerate(self._read_locally()):
            writer = staging.open_writer(0, number)
            try:
                stage_rows(batches, options, writer, f"{self.producer}/0/{number}")
            except BaseException:
                for file in (*staged, writer.close()):
                    staging.discard(file.path)
                raise
            staged.append(writer.close())
        commit_staged(options, self.producer, staged, 0)
        return sum(file.rows for file in staged)

    def _read_locally(self) -> Iterator[local_files.Batches]:
        for file in self._group:
            yield from local_files.read_tasks(self._source, self._plan.schema, file, self._target)


@contextmanager
def _fixed_splits(spark: SparkSession) -> Iterator[None]:
    """Set `SPLIT_CONF` during the block only, since other code may share the session."""
    before = {name: spark.conf.get(name, None) for name in SPLIT_CONF}
    for name, value in SPLIT_CONF.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)


def _extract_columns(lines: DataFrame, target: Mapping[str, str]) -> DataFrame:
    """Return the lines unchanged, with the columns that the writer needs."""
    from pyspark.sql import functions as f

    columns = [f.col("value").cast("binary").alias("value")]
    for option in LINE_COLUMNS:
        name = target.get(option)
        if name is None:
            continue
        found = f.get_json_object("value", f"$['{name}']")
        if option == "partitionColumn":
            several = f.from_json(found, "array<string>")
            found = f.when(found.startswith("["), several).otherwise(f.array(found))
        columns.append(found.alias(name))
    return lines.select(*columns)
