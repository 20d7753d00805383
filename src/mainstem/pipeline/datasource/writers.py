"""Spark's two writers: tasks stage their rows, and the driver sends them. See docs/adr/0011-exactly-once-sink.md."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.delivery import commit_staged, open_staging
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.staging_directory import StagedFile
from mainstem.pipeline.datasource.task_writer import check_columns, stage_rows

if TYPE_CHECKING:
    import pyarrow as pa

    CommitMessages = list[WriterCommitMessage | None]


@dataclass
class StagedCommitMessage(WriterCommitMessage):
    """A task's report to the driver: the producer, and the file with its staged rows."""

    producer: str
    partition: int
    file: StagedFile


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream. The producer is the query and the epoch is the micro-batch, so a replay repeats both."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        check_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise BadOption(
                "this version of Spark does not tell its tasks their query and batch: use Spark 4.2.1 or newer"
            )
        return _write(self.options, query, int(batch), task.partitionId(), iterator)

    def commit(self, messages: CommitMessages, batchId: int) -> None:
        _commit(self.options, messages, batchId)

    def abort(self, messages: CommitMessages, batchId: int) -> None:
        _abort(self.options, messages, batchId)


class LogWriter(DataSourceArrowWriter):
    """Writes a batch. The producer is `producerId`; without one, each write has a new producer."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.producer = options.producer_id or f"spark-{uuid.uuid4()}"
        check_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return _write(self.options, self.producer, 0, task.partitionId(), iterator)

    def commit(self, messages: CommitMessages) -> None:
        _commit(self.options, messages, 0)
        if self.options.producer_id is None:
            open_staging(self.options, self.producer).discard_all()

    def abort(self, messages: CommitMessages) -> None:
        _abort(self.options, messages, 0)


def _write(
    options: WriteOptions, producer: str, batch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> StagedCommitMessage:
    staging = open_staging(options, producer)
    writer = staging.open_writer(batch, partition)
    stage_rows(batches, options, writer, f"{producer}/{batch}/{partition}")
    return StagedCommitMessage(producer, partition, writer.close())


def _commit(options: WriteOptions, messages: CommitMessages, batch: int) -> None:
    staged = sorted((one for one in messages if isinstance(one, StagedCommitMessage)), key=lambda one: one.partition)
    if staged:
        commit_staged(options, staged[0].producer, [one.file for one in staged], batch)


def _abort(options: WriteOptions, messages: CommitMessages, batch: int) -> None:
    """Discard the staged rows, unless some may have been sent: the next attempt must find those."""
    for one in messages:
        if isinstance(one, StagedCommitMessage):
            staging = open_staging(options, one.producer)
            manifest = staging.read_manifest(batch)
            if manifest is None or one.file not in manifest.files:
                staging.discard(one.file.path)
