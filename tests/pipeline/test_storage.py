"""Full disks, jobs that were started twice, and messages of many megabytes."""

import os
import re

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from mainstem.errors import JobRunning, StorageFailed
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.context import Summary
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.archive_table import open_archive
from mainstem.pipeline.lake.delta import LogTable
from mainstem.pipeline.lake.parquet_files import ParquetFileWriter
from mainstem.pipeline.log_reader import Position
from tests.support.small_disks import grow, mounted

MIB = 1 << 20


def archived_places(table):
    rows = open_archive(str(table)).load().to_pyarrow_dataset().to_table(columns=["committed_id", "position"])
    return sorted((row["committed_id"], row["position"]) for row in rows.to_pylist())


def test_a_full_disk_stops_the_archive_and_the_next_round_continues(context, log, tmp_path):
    for number in range(8):
        log.append_bytes(f"noise/{number}", os.urandom(MIB // 2))
    with mounted(tmp_path / "disk", 2 * MIB) as disk:
        for output in (make_archive(str(disk / "archive")), make_export(str(disk / "files"), ExportOptions("ndjson"))):
            with pytest.raises(StorageFailed) as caught:
                run_once(output, context)
            assert re.fullmatch(r"cannot write /\S+: no space left on the disk: free some", caught.value.detail)
        grow(disk, 64 * MIB)
        run_once(make_archive(str(disk / "archive")), context)
        assert archived_places(disk / "archive") == log.places()


def test_a_disk_that_is_full_when_files_are_committed(tmp_path):
    schema = pa.schema([("committed_id", pa.int64())])
    with mounted(tmp_path / "disk", MIB) as disk:
        table = LogTable(str(disk / "table"), "app", schema)
        table.create()
        ids = pa.array([1, 2, 3], pa.int64())
        writer = ParquetFileWriter(table.location, "", schema)
        writer.write(pa.RecordBatch.from_arrays([ids], schema=schema), ids, ids)
        file = writer.close()
        _fill(disk)
        with pytest.raises(StorageFailed, match=r"cannot extend the Delta table at .*: no space left"):
            table.commit([file], 0, Position(3))
        grow(disk, 8 * MIB)
        table.commit([file], 0, Position(3))
        assert table.load().to_pyarrow_dataset().to_table().column("committed_id").to_pylist() == [1, 2, 3]


def _fill(disk):
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (4096, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                pass


def test_a_job_that_is_started_twice_runs_once(context):
    def job(within):
        with pytest.raises(JobRunning, match=f"process [0-9]+ runs a job with the checkpoint {context.checkpoint}"):
            run_once(lambda _: Summary(job="second"), within)
        return Summary(job="first")

    assert run_once(job, context).job == "first"
    assert run_once(lambda _: Summary(job="third"), context).job == "third"


def test_a_full_disk_stops_the_sink_and_the_next_run_continues(spark, log, tmp_path):
    rows = 20_000
    log.append("in", [{"n": number, "noise": os.urandom(40).hex()} for number in range(rows)])

    def follow(staging):
        reader = spark.readStream.format("mainstem").option("url", log.url).option("schema", "n INT, noise STRING")
        writer = reader.load("in").select("n", "noise").writeStream.format("mainstem").option("url", log.url)
        writer = writer.option("stream", "out").option("stagingLocation", str(staging))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(90)

    with mounted(tmp_path / "disk", MIB) as disk:
        with pytest.raises(StreamingQueryException, match=r"cannot write .*: no space left on the disk: free some"):
            follow(disk)
        assert log.read("out") == []
        grow(disk, 64 * MIB)
        follow(disk)
    assert sorted(row["n"] for row in log.read("out")) == list(range(rows))


def test_messages_of_many_megabytes(spark, context, log, tmp_path):
    """The server accepts up to 64 MiB at once, and a row of the sink may have 16 MiB."""
    log.append_bytes("videos", os.urandom(60_000_000))
    log.append_bytes("videos", b"short")
    headers = {"Content-Type": "application/octet-stream"}
    refused = log.http.post("/v1/stream/videos", headers=headers, content=bytes(90_000_000))
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    sizes = spark.read.format("mainstem").option("url", log.url).load("videos").selectExpr("octet_length(data) AS size")
    assert sorted(row["size"] for row in sizes.collect()) == [5, 60_000_000]
    run_once(make_archive(str(tmp_path / "archive")), context)
    assert archived_places(tmp_path / "archive") == log.places()
    huge = spark.range(1).selectExpr("repeat('x', 17000000) AS value")
    writer = huge.write.format("mainstem").mode("append").option("url", log.url).option("valueColumn", "value")
    writer = writer.option("contentType", "text/plain").option("stagingLocation", str(tmp_path / "staging"))
    with pytest.raises(PySparkException, match=r"mainstem.errors.BadRow: .*17000000"):
        writer.option("stream", "huge").save()
    assert log.http.get("/v1/stream/huge").status_code == 404
