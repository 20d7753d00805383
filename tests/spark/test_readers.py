"""`spark.read` and `spark.readStream` over a real server."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as f

from mainstem.pipeline.log_schema import LOG_COLUMNS, log_struct
from tests.support.waits import eventually

JSON_TYPE = {"Content-Type": "application/json"}

pytestmark = pytest.mark.slow


def read(spark, log, **options):
    reader = spark.read.format("mainstem").option("url", log.url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def follow(spark, log, **options):
    reader = spark.readStream.format("mainstem").option("url", log.url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def land(frame, folder, **trigger):
    """Run a query that writes the rows that it reads into Parquet files."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.option("path", str(folder / "rows")).trigger(**(trigger or {"availableNow": True})).start()


def numbers(spark, folder):
    rows = spark.read.parquet(str(folder / "rows")).select(f.get_json_object(f.col("data").cast("string"), "$.n"))
    return sorted(int(row[0]) for row in rows.collect())


@pytest.fixture
def filled(shared, name):
    """A stream of 1000 numbered messages, in ten appends."""
    shared.append(name, [{"n": number, "even": number % 2 == 0} for number in range(1_000)], at_once=100)
    return shared


def test_a_message_has_every_column(spark, shared, name):
    begin = datetime.now(UTC)
    shared.http.put(f"/v1/stream/{name}", headers=JSON_TYPE)
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    shared.http.post(f"/v1/stream/{name}", headers=JSON_TYPE | producer, content=b'[{"a": 1.0}, 2]').raise_for_status()
    first, second = read(spark, shared, streams=name).orderBy("committed_id", "position").collect()
    assert first.committed_id == second.committed_id
    assert (first.position, second.position) == (0, 1)
    assert (bytes(first.data), bytes(second.data)) == (b'{"a": 1.0}', b"2")
    assert (first.kind, first.stream, first.producer_id) == ("stream", name, "p")
    assert first.content_type == "application/json"
    assert first.offset < second.offset
    assert (first.partitions, first.id, first.client_id) == (None, None, None)
    assert begin.replace(tzinfo=None) <= first.committed_at <= datetime.now(UTC).replace(tzinfo=None)


def test_a_batch_read_is_split_into_tasks_and_is_complete(spark, filled, name):
    frame = read(spark, filled, streams=name, minPartitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert frame.count() == 1_000
    assert frame.select("offset").distinct().count() == 1_000


def test_a_read_without_matches_is_empty(spark, shared, name):
    assert read(spark, shared, streams=name).count() == 0
    assert read(spark, shared, streams=name, startingId="latest").count() == 0
    assert read(spark, shared, startingId=10, endingId=5).count() == 0


def test_a_range_of_ids_includes_both_ends(spark, filled, name):
    ids = sorted({row.committed_id for row in read(spark, filled, streams=name).select("committed_id").collect()})
    part = read(spark, filled, streams=name, startingId=ids[2], endingId=ids[4])
    assert sorted({row.committed_id for row in part.collect()}) == ids[2:5]


def test_filters_are_pushed_down_with_the_same_result(spark, filled, name):
    everything = [row.asDict() for row in read(spark, filled, streams=f"{name}").collect()]
    ids = sorted({row["committed_id"] for row in everything})
    moment = sorted(row["committed_at"] for row in everything)[500]
    frame = read(spark, filled)
    for condition, holds in [
        (f"committed_id > {ids[3]}", lambda row: row["committed_id"] > ids[3]),
        (f"committed_id in ({ids[1]}, {ids[3]})", lambda row: row["committed_id"] in (ids[1], ids[3])),
        (f"committed_at >= timestamp'{moment}'", lambda row: row["committed_at"] >= moment),
        (f"committed_at < timestamp'{moment}'", lambda row: row["committed_at"] < moment),
        ("kind = 'stream'", lambda row: True),
        ("kind = 'event'", lambda row: False),
        ("committed_id < 0", lambda row: False),
    ]:
        found = frame.filter(f"stream = '{name}' and {condition}").select("offset").collect()
        assert sorted(row.offset for row in found) == sorted(row["offset"] for row in everything if holds(row))
    assert frame.filter(f"stream like '{name}%'").count() == 1_000
    assert frame.filter(f"stream in ('{name}', 'other')").count() == 1_000
    plan = frame.filter(f"stream = '{name}' and committed_id > 5")._jdf.queryExecution().executedPlan().toString()
    assert "committed_id" not in plan.split("Filter", 1)[1].split("\n", 1)[0]


def test_typed_columns_follow_those_of_the_log(spark, filled, name):
    frame = read(spark, filled, streams=name, schema="n INT, even BOOLEAN, missing STRING")
    assert frame.columns[-4:] == ["committed_at", "n", "even", "missing"]
    row = frame.agg(f.sum("n"), f.count_if("even"), f.count("missing")).first()
    assert tuple(row) == (sum(range(1_000)), 500, 0)


def test_typed_fields_named_like_columns_of_the_log_go_into_a_struct(spark, shared, name):
    shared.append(name, [{"id": "x", "data": 1}])
    with pytest.raises(PySparkException, match="schemaColumn"):
        read(spark, shared, streams=name, schema="id STRING").collect()
    frame = read(spark, shared, streams=name, schema="id STRING, data INT", schemaColumn="value")
    assert frame.select("value.*").collect() == [("x", 1)]
    with pytest.raises(PySparkException, match="needs the option schema"):
        read(spark, shared, streams=name, schemaColumn="value").collect()


def test_columns_and_your_own_schema(spark, filled, name):
    assert read(spark, filled, streams=name, columns="stream,committed_id").columns == ["stream", "committed_id"]
    reader = spark.read.format("mainstem").option("url", filled.url).schema("n BIGINT, committed_id BIGINT")
    rows = reader.load(name).orderBy("n").collect()
    assert [row.n for row in rows] == list(range(1_000))
    with pytest.raises(PySparkException, match="there is no column 'dta'"):
        read(spark, filled, columns="dta")


def test_messages_that_are_not_json_have_null_columns(spark, shared, name):
    shared.http.put(f"/v1/stream/{name}", headers={"Content-Type": "text/plain"}, content=b'{"n": 1}')
    (row,) = read(spark, shared, streams=name, schema="n INT").collect()
    assert (row.n, bytes(row.data)) == (None, b'{"n": 1}')


def test_an_unknown_option_is_named(spark, shared):
    with pytest.raises(PySparkException, match="unknown option 'stream'"):
        read(spark, shared, stream="a")


def test_available_now_reads_up_to_the_head_and_continues_from_its_checkpoint(spark, filled, name, tmp_path):
    frame = follow(spark, filled, streams=name)
    land(frame, tmp_path).awaitTermination(60)
    filled.append(name, [{"n": number} for number in range(1_000, 1_100)])
    land(frame, tmp_path).awaitTermination(60)
    assert numbers(spark, tmp_path) == list(range(1_100))
    offsets = [
        file.read_text().splitlines()[-1] for file in sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    ]
    assert [list(json.loads(offset)) for offset in offsets] == [["committed_id", "log", "epoch"]] * 2


@pytest.mark.parametrize("limit", [{"maxRowsPerTrigger": 300}, {"maxBytesPerTrigger": 9_000}])
def test_a_limit_splits_the_data_into_several_batches(spark, start_server, open_log, tmp_path, limit):
    log = open_log(start_server("--store", "memory").url)
    log.append("s", [{"n": number} for number in range(1_000)], at_once=50)
    query = land(follow(spark, log, **limit), tmp_path)
    query.awaitTermination(60)
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(sizes) >= 2
    assert sum(sizes) == 1_000
    if "maxRowsPerTrigger" in limit:
        assert max(sizes) <= 300
    assert numbers(spark, tmp_path) == list(range(1_000))


def test_a_processing_time_trigger_follows_the_log(spark, filled, name, tmp_path):
    query = land(follow(spark, filled, streams=name), tmp_path, processingTime="100 milliseconds")
    try:
        eventually(lambda: query.lastProgress and query.lastProgress["batchId"] >= 0)
        filled.append(name, [{"n": number} for number in range(1_000, 1_010)])
        eventually(lambda: sum(progress["numInputRows"] for progress in query.recentProgress) == 1_010)
    finally:
        query.stop()
    assert numbers(spark, tmp_path) == list(range(1_010))


def test_starting_at_the_latest_skips_older_messages(spark, filled, name, tmp_path):
    frame = follow(spark, filled, streams=name, startingId="latest")
    land(frame, tmp_path).awaitTermination(60)
    filled.append(name, [{"n": 5_000}])
    land(frame, tmp_path).awaitTermination(60)
    assert numbers(spark, tmp_path) == [5_000]


def test_a_query_with_invalid_options_is_refused(spark, shared, tmp_path):
    with pytest.raises(
        (PySparkException, StreamingQueryException), match="endingId and endingTimestamp are for batch reads"
    ):
        land(follow(spark, shared, endingId=5), tmp_path).awaitTermination(60)


@pytest.mark.parametrize("columns", [tuple(LOG_COLUMNS), ("content_type", "data")])
def test_the_columns_are_known_without_spark(spark, shared, columns):
    reader = spark.read.format("mainstem").option("url", shared.url).option("columns", ",".join(columns))
    assert reader.load().schema == log_struct(columns)
