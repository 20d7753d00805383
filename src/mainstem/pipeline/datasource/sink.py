"""Spark's two writers: tasks stage their rows, the driver sends them. See docs/adr/0011-exactly-once-sink.md."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mainstem.errors import BadOption, StageLost
from mainstem.pipeline.datasource.delivery import deliver, is_there
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.stage import Manifest, Stage, StagedFile
from mainstem.pipeline.datasource.staging import check_columns, stage_rows
from mainstem.pipeline.folders import cache_folder

if TYPE_CHECKING:
    import pyarrow as pa

    Messages = list[WriterCommitMessage | None]


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the driver: whose rows, and where they are."""

    producer: str
    partition: int
    file: StagedFile


class StreamSink(DataSourceStreamArrowWriter):
    """The producer is the query, the epoch is the micro-batch; both stay the same when it is replayed."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        check_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise BadOption("this Spark does not tell its tasks the query and batch they work for")
        return _stage(self.options, query, int(batch), task.partitionId(), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        _commit(self.options, messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        _abort(self.options, messages, batchId)


class BatchSink(DataSourceArrowWriter):
    """The producer is `producerId`. Without one each write is new, and only its own tasks may retry."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.producer = options.producer_id or f"spark-{uuid.uuid4()}"
        check_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return _stage(self.options, self.producer, 0, task.partitionId(), iterator)

    def commit(self, messages: Messages) -> None:
        _commit(self.options, messages, 0)
        if self.options.producer_id is None:
            open_stage(self.options, self.producer).discard_all()

    def abort(self, messages: Messages) -> None:
        _abort(self.options, messages, 0)


def open_stage(options: WriteOptions, producer: str) -> Stage:
    """Without a location of its own, a folder a server: another one has nothing of what this one has."""
    server = hashlib.sha256(options.server.url.encode()).hexdigest()[:16]
    return Stage(options.staging or str(cache_folder("staging", server)), producer)


def _stage(
    options: WriteOptions, producer: str, batch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> Staged:
    stage = open_stage(options, producer)
    writer = stage.open_new(batch, partition)
    stage_rows(batches, options, writer, f"{producer}/{batch}/{partition}")
    return Staged(producer, partition, writer.close())


def _commit(options: WriteOptions, messages: Messages, batch: int) -> None:
    staged = sorted((one for one in messages if isinstance(one, Staged)), key=lambda one: one.partition)
    if not staged:
        return
    stage = open_stage(options, staged[0].producer)
    manifest = stage.read_manifest(batch)
    if manifest is not None and options.producer_id is not None:
        _check_target(options, manifest)
        if manifest.done and not is_there(options, manifest):
            stage.forget(batch)
            manifest = None
    if manifest is None:
        files = [one.file for one in staged if one.file.frames]
        if not files:
            stage.clean(batch)
            return
        manifest = stage.begin(batch, Manifest(options.target, files))
    if not manifest.done:
        try:
            stage.finish(batch, manifest, deliver(options, stage, manifest, staged[0].producer, batch))
        except StageLost:
            now = stage.read_manifest(batch)
            if now is None or not now.done:  # else a driver that was thought dead has finished the same batch
                raise
    stage.clean(batch)


def _check_target(options: WriteOptions, manifest: Manifest) -> None:
    if manifest.target != options.target:
        raise BadOption(f"producerId {options.producer_id!r} has written to {manifest.target}: take another one")


def _abort(options: WriteOptions, messages: Messages, batch: int) -> None:
    """Forget what was staged, unless some of it may have been sent: then the next attempt must find it."""
    for one in messages:
        if isinstance(one, Staged):
            stage = open_stage(options, one.producer)
            manifest = stage.read_manifest(batch)
            if manifest is None or one.file not in manifest.files:
                stage.discard(one.file.path)
