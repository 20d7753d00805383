"""`python -m bench.spark_workload PORT FOLDER ROWS TIMES`: read and write a server with Spark, and print the figures.

With TIMES 0 it only reads, repeatedly: from when it prints `ready` until its standard input ends.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.load_jobs import Figures, encode_figures
from bench.wire import HOST
from mainstem.pipeline import session
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.log_reader import read_head

MASTER = "local[2]"
STREAM = "rows"
BATCH = 1_000
SPLITS = 8
READS = 16  # until Java has compiled what runs in them
MESSAGE = '{{"id":{0},"user":"user-{1:06d}","item":"item-{2:04d}","cents":{3},"note":"{4}"}}'
NOTE = "x" * 109  # makes a message about 190 bytes long


def fill(url: str, rows: int) -> None:
    headers = {"Content-Type": "application/json"}
    with HttpClient(ServerOptions(url)) as client:
        client.request("PUT", f"/v1/stream/{STREAM}", headers=headers)
        for first in range(0, rows, BATCH):
            numbers = range(first, min(first + BATCH, rows))
            parts = [MESSAGE.format(n, n % 1_000_000, n % 10_000, 100 + n % 900, NOTE) for n in numbers]
            body = f"[{','.join(parts)}]".encode()
            producer = {"Producer-Id": "fill", "Producer-Epoch": "0", "Producer-Seq": str(first // BATCH)}
            client.request("POST", f"/v1/stream/{STREAM}", headers=headers | producer, body=body)


class TupleSource(DataSource):
    """A source for comparison: the same rows as NDJSON, with one Python tuple per row."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return "committed_id BIGINT, position INT, stream STRING, data STRING"

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(str(self.options["url"]))


class TupleReader(DataSourceReader):
    def __init__(self, url: str) -> None:
        self.url = url

    def partitions(self) -> list[InputPartition]:
        with HttpClient(ServerOptions(self.url)) as client:
            head = read_head(client).head
        ends = [head * share // SPLITS for share in range(SPLITS + 1)]
        return [InputPartition(pair) for pair in itertools.pairwise(ends)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        after, until = partition.value
        with HttpClient(ServerOptions(self.url)) as client:
            while after < until:
                query = [("after", str(after)), ("until", str(until)), ("stream", STREAM)]
                reply = client.request("GET", "/v1/log", query=query, headers={"Accept": "application/x-ndjson"})
                for line in reply.body.splitlines():
                    row = json.loads(line)
                    yield row["committed_id"], row["position"], row["stream"], row["data"]
                after = int(reply.headers["Log-Next"])


def aggregate(frame: DataFrame, rows: int) -> None:
    found = frame.selectExpr("count(*)", "sum(length(data))", "max(committed_id)").collect()[0]
    if found[0] != rows:
        raise SystemExit(f"read {found[0]} rows instead of {rows}")


def fastest(work: Callable[[], object], times: int) -> float:
    """Return the seconds of the fastest of several runs, after one that does not count."""
    work()
    return min(clock(work) for _ in range(times))


def clock(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def land(spark: SparkSession, url: str, folder: Path) -> None:
    """Read the whole log into Parquet files, with a streaming query."""
    shutil.rmtree(folder, ignore_errors=True)
    frame = spark.readStream.format("mainstem").option("url", url).load(STREAM)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.option("path", str(folder / "rows")).trigger(availableNow=True).start().awaitTermination()


def sink(spark: SparkSession, url: str, folder: Path, rows: int, number: int) -> float:
    """Return the seconds of a streaming query that writes `rows` rows into one stream."""
    source = folder / "source"
    if not source.exists():
        columns = ("id", "id % 1000 AS user", "id % 10 AS item", f"'{NOTE}' AS note")
        spark.range(rows).selectExpr(*columns).write.parquet(str(source))
    frame = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    writer = frame.writeStream.format("mainstem").option("url", url).option("stream", f"sink-{number}")
    writer = writer.option("checkpointLocation", str(folder / f"sink-{number}")).trigger(availableNow=True)
    return clock(lambda: writer.start().awaitTermination())


def measure(url: str, folder: Path, rows: int, times: int) -> Figures:
    fill(url, rows)
    spark = session("bench", MASTER, work=folder / "spark")
    spark.dataSource.register(TupleSource)
    log = spark.read.format("mainstem").option("url", url)
    read = fastest(lambda: aggregate(log.load(STREAM), rows), READS)
    columns = fastest(lambda: aggregate(log.option("columns", "committed_id,data").load(STREAM), rows), READS)
    tuples = fastest(lambda: aggregate(spark.read.format("tuples").option("url", url).load(), rows), 1)
    landed = fastest(lambda: land(spark, url, folder / "landed"), times)
    files = str(folder / "landed" / "rows")
    parquet = fastest(lambda: aggregate(spark.read.parquet(files), rows), READS)
    sinks = [sink(spark, url, folder, rows, number) for number in range(times + 1)][1:]
    spark.stop()
    return {
        "rows_per_s": rows / read,
        "columns_rows_per_s": rows / columns,
        "tuple_rows_per_s": rows / tuples,
        "parquet_rows_per_s": rows / parquet,
        "available_now_s": landed,
        "sink_rows_per_s": rows / min(sinks),
    }


def read_on(url: str, folder: Path) -> None:
    """Read repeatedly until standard input ends."""
    spark = session("bench", MASTER, work=folder / "spark")
    land(spark, url, folder / "landed")
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        land(spark, url, folder / "landed")
    spark.stop()


def main() -> None:
    port, folder, rows, times = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    url = f"http://{HOST}:{port}"
    if times == 0:
        read_on(url, folder)
        return
    figures = measure(url, folder, rows, times)
    print(encode_figures(figures))


if __name__ == "__main__":
    main()
