"""A streaming source whose only rows are times of the server's clock. It moves the watermark of a log that is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME = "mainstem-clock"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Offset = dict[str, int]
"""`us`: the last time that was passed on, in microseconds since 1970."""


class ClockSource(DataSource):
    """The option `us` is the time to pass on; without it, or if it is not later than the last one, there is no row."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "at TIMESTAMP"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ClockReader(int(self.options.get("us", "0")))


class Ticks(InputPartition):
    """The times after `start` up to `end`: the last one, or none if the clock has not moved."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(None)
        self.start = start
        self.end = end


class ClockReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset is in the checkpoint of the query, so a batch that is repeated has the same time."""

    def __init__(self, us: int) -> None:
        self._us = us

    def initialOffset(self) -> Offset:
        return {"us": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to prepare: the time is fixed for the run."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {"us": max(start["us"], self._us)}

    def reportLatestOffset(self) -> Offset:
        return {"us": self._us}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return [Ticks(start["us"], end["us"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ticks)
        if partition.end > partition.start:
            yield (EPOCH + timedelta(microseconds=partition.end),)

    def commit(self, end: Offset) -> None:
        """Nothing to release."""


def read_clock(spark: SparkSession, us: int | None) -> DataFrame:
    """Return a stream with this time as its only new row; without a row if there is no time."""
    spark.dataSource.register(ClockSource)
    return spark.readStream.format(NAME).option("us", str(us or 0)).load()
