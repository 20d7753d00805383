"""Where reads start and end, how they are divided among tasks, and how long a micro-batch waits."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from mainstem import limits
from mainstem.pipeline.datasource.data_source import MainstemDataSource
from mainstem.pipeline.log_schema import LOG_COLUMNS, log_struct
from mainstem.testing.server import ServerProcess
from tests.spark.test_readers import follow, land, numbers, read

pytestmark = pytest.mark.slow


@pytest.fixture
def log(start_server, open_log):
    return open_log(start_server("--store", "memory").url)


def collect(frame):
    return sorted(json.loads(bytes(row.data))["n"] for row in frame.select("data").collect())


def test_times_are_resolved_to_ids(spark, log, tmp_path):
    log.append("s", [{"n": n} for n in range(3)], at_once=1)
    log.append("s", [{"n": 3}, {"n": 4}])
    rows = log.rows()
    second, last = rows[1]["committed_at"], rows[3]["committed_at"]
    assert collect(read(spark, log, startingTimestamp=second)) == [1, 2, 3, 4]
    assert collect(read(spark, log, startingTimestamp=second, endingTimestamp=last)) == [1, 2]
    assert collect(read(spark, log, endingTimestamp="2100-01-01")) == [0, 1, 2, 3, 4]
    milliseconds = int(datetime.fromisoformat(rows[0]["committed_at"]).timestamp() * 1000)
    assert collect(read(spark, log, startingTimestamp=milliseconds)) == [0, 1, 2, 3, 4]
    assert collect(read(spark, log, startingTimestamp=datetime(2100, 1, 1, tzinfo=UTC).isoformat())) == []
    frame = follow(spark, log, startingTimestamp=last, streams="s")
    land(frame, tmp_path).awaitTermination(60)
    log.append("s", [{"n": 5}])
    land(frame, tmp_path).awaitTermination(60)
    assert numbers(spark, tmp_path) == [3, 4, 5]


def test_streams_have_starts_of_their_own(spark, log, tmp_path):
    for name in "abcd":
        log.append(name, [{"n": n} for n in range(4)], at_once=2)
    offset = [row["offset"] for row in log.rows(prefix="a")][1]
    starts = json.dumps({"a": offset, "b": "now", "c": "-1", "later": "now"})
    options = {"startingOffsetsByStream": starts, "columns": "data"}
    by_default = read(spark, log, **options)
    assert collect(by_default) == sorted([1, 2, 3] + [0, 1, 2, 3] * 2)
    assert collect(read(spark, log, **options, startingId="latest")) == [0, 1, 1, 2, 2, 3, 3]
    frame = follow(spark, log, **options, startingId="latest", maxRowsPerTrigger=3)
    land(frame, tmp_path).awaitTermination(60)
    for name in ("b", "d", "later"):
        log.append(name, [{"n": n} for n in range(10, 12)])
    land(frame, tmp_path).awaitTermination(60)
    assert numbers(spark, tmp_path) == sorted([1, 2, 3] + [0, 1, 2, 3] + [10, 11] * 3)
    offsets = [
        json.loads(file.read_text().splitlines()[-1])
        for file in sorted((tmp_path / "checkpoint/offsets").glob("[0-9]*"))
    ]
    assert "starts" in offsets[0]
    assert "starts" not in offsets[-1]
    with pytest.raises(PySparkException, match="startingOffsetsByStream has the stream 'a', which the other options"):
        read(spark, log, streams="b", startingOffsetsByStream='{"a": "now"}')


def test_a_first_batch_that_is_repeated_starts_where_it_started(log):
    """Spark asks for the initial offset again, and by then `latest` is another one."""
    log.append("s", [{"n": 0}])
    reader_options = {"url": log.url, "startingId": "latest"}
    stream = MainstemDataSource(reader_options).streamReader(log_struct(tuple(LOG_COLUMNS)))
    first = stream.initialOffset()
    log.append("s", [{"n": 1}, {"n": 2}])
    end = stream.latestOffset(first, stream.getDefaultReadLimit())
    log.append("s", [{"n": 3}])
    again = MainstemDataSource(reader_options).streamReader(log_struct(tuple(LOG_COLUMNS)))
    restarted = again.initialOffset()
    assert restarted != first
    batches: list[Any] = [batch for part in again.partitions(restarted, end) for batch in again.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [json.loads(row["data"])["n"] for row in rows] == [1, 2]
    stream.stop()
    again.stop()


def test_one_large_append_is_divided_among_tasks(spark, start_server, open_log):
    server: ServerProcess = start_server()
    log = open_log(server.url)
    log.append("small", [{"n": n} for n in range(20)], at_once=1)
    log.append("large", [{"n": n, "text": "x" * 2_000} for n in range(6_000)], at_once=6_000)
    log.append("small", [{"n": n} for n in range(20, 40)], at_once=1)

    def sizes(**options):
        frame = read(spark, log, **options)
        counts = frame.select("offset").rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
        assert frame.select("stream", "offset").distinct().count() == sum(counts) == 6_040
        return counts

    assert len(sizes()) == limits.BATCH_PARTITIONS  # 12 MB
    by_number = sizes(minPartitions=3)
    assert len(by_number) == 3
    assert max(by_number) < 2_500
    assert max(sizes(maxRecordsPerPartition=700)) <= 700
    assert read(spark, log, streams="small").rdd.getNumPartitions() == 1
    with pytest.raises(PySparkException, match="parts, and the most is 10000"):
        read(spark, log, maxRecordsPerPartition=1, minPartitions=9_000).count()


def test_a_micro_batch_waits_for_rows_but_not_for_ever(log):
    def open_reader(**options):
        return MainstemDataSource({"url": log.url} | options).streamReader(log_struct(("data",)))

    log.append("s", [{"n": 0}])
    options = {"minRowsPerTrigger": "10", "maxTriggerDelay": "60m"}
    reader = open_reader(**options)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first["committed_id"] == log.head_id()  # the first never waits
    assert reader.reportLatestOffset() == {"committed_id": log.head_id(), "seconds_behind": 0.0}
    log.append("s", [{"n": n} for n in range(1, 6)])
    for _ in range(2):
        assert reader.latestOffset(first, limit) == first
    report = reader.reportLatestOffset()
    assert report["committed_id"] == log.head_id()
    assert report["seconds_behind"] > 0
    assert reader.latestOffset(first, ReadAllAvailable())["committed_id"] == log.head_id()
    impatient = open_reader(minRowsPerTrigger="10", maxTriggerDelay="0s")
    impatient.latestOffset(impatient.initialOffset(), limit)
    assert impatient.latestOffset(first, limit)["committed_id"] == log.head_id()
    draining = open_reader(**options)
    draining.prepareForTriggerAvailableNow()
    draining.latestOffset(draining.initialOffset(), limit)
    assert draining.latestOffset(first, limit)["committed_id"] == log.head_id()
    log.append("s", [{"n": n} for n in range(6, 12)])
    assert reader.latestOffset(first, limit)["committed_id"] == log.head_id()
    both = open_reader(minRowsPerTrigger="2", maxRowsPerTrigger="5")
    assert both.getDefaultReadLimit() == ReadMaxRows(5)
    assert both.latestOffset(first, ReadMaxRows(5))["committed_id"] == first["committed_id"] + 1
    for one in (reader, impatient, draining, both):
        one.stop()
