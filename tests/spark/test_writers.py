"""`df.writeStream` and `df.write` into streams, many streams, and partitions."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from mainstem.pipeline import session

pytestmark = pytest.mark.slow


def write(frame, log, **options):
    writer = frame.write.format("mainstem").mode("append").option("url", log.url)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def pump(spark, log, source, folder, change=lambda frame: frame, reading=None, **options):
    """Write one stream of the log somewhere else, up to its current end."""
    reader = spark.readStream.format("mainstem").option("url", log.url).option("streams", source)
    frame = change(reader.option("schema", "n INT, room STRING").options(**(reading or {})).load())
    writer = frame.writeStream.format("mainstem").option("url", log.url).options(**options)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(60)
    return query


@pytest.fixture
def rooms(shared, name):
    """A stream of 500 numbered messages of ten rooms."""
    shared.append(f"{name}/in", [{"n": number, "room": f"r{number % 10}"} for number in range(500)], at_once=50)
    return shared


def test_rows_arrive_in_order_as_json_objects(spark, rooms, name, tmp_path):
    pump(spark, rooms, f"{name}/in", tmp_path, lambda frame: frame.select("n", "room"), stream=f"{name}/out")
    found = rooms.read(f"{name}/out")
    assert found == [{"n": number, "room": f"r{number % 10}"} for number in range(500)]


def test_any_thread_that_asked_for_the_session_can_write(spark, rooms, name, tmp_path):
    def work():
        pump(session(), rooms, f"{name}/in", tmp_path, lambda frame: frame.select("n"), stream=f"{name}/out")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
    assert len(rooms.read(f"{name}/out")) == 500


def test_the_producer_is_named_after_the_query_and_its_epoch_is_the_batch(spark, start_server, open_log, tmp_path):
    log = open_log(start_server("--store", "memory").url)
    log.append("in", [{"n": number} for number in range(500)], at_once=50)
    query = pump(
        spark, log, "in", tmp_path, lambda frame: frame.select("n"), {"maxRowsPerTrigger": "200"}, stream="out"
    )
    rows = log.rows(stream="out", max_bytes=10_000_000)
    assert {row["producer_id"] for row in rows} == {query.id}
    stale = {"Content-Type": "application/json", "Producer-Id": query.id, "Producer-Epoch": "0", "Producer-Seq": "0"}
    reply = log.http.post("/v1/stream/out", headers=stale, content=b"1")
    assert reply.json()["current_epoch"] == query.lastProgress["batchId"] >= 2


def test_the_bytes_of_a_column_are_kept(spark, rooms, name, tmp_path):
    pump(spark, rooms, f"{name}/in", tmp_path, stream=f"{name}/out", valueColumn="data")
    rows = rooms.rows(stream=f"{name}/out", max_bytes=10_000_000)
    assert rows[3]["data"] == '{"n": 3, "room": "r3"}'
    assert len(rows) == 500


def test_text_can_be_written_to_a_text_stream(spark, shared, name):
    frame = spark.createDataFrame([("a\n",), ("b\n",)], "value STRING").coalesce(1)
    write(frame, shared, stream=name, contentType="text/plain")
    assert shared.http.get(f"/v1/stream/{name}").text == "a\nb\n"


def test_rows_go_to_many_streams_each_in_order(spark, rooms, name, tmp_path):
    def change(frame):
        return frame.select("n", f.concat(f.lit(f"{name}/rooms/"), "room").alias("to"))

    pump(spark, rooms, f"{name}/in", tmp_path, change, streamColumn="to")
    for room in range(10):
        assert rooms.read(f"{name}/rooms/r{room}") == [{"n": number} for number in range(room, 500, 10)]


def test_rows_go_to_partitions_as_events(spark, rooms, name, tmp_path):
    def change(frame):
        return frame.select("n", f.array(f.concat(f.lit(name), "room"), f.lit(f"{name} all")).alias("to"))

    pump(spark, rooms, f"{name}/in", tmp_path, change, partitionColumn="to")
    rows = rooms.rows(partition=f"{name} all", max_bytes=10_000_000)
    assert [json.loads(row["data"]) for row in rows] == [{"n": number} for number in range(500)]
    assert rows[7]["partitions"] == sorted([f"{name}r7", f"{name} all"])
    assert len({row["id"] for row in rows}) == 500


def test_events_with_ids_are_stored_once(spark, shared, name):
    frame = spark.range(250).select(
        f.concat(f.lit(f"{name}-"), f.col("id") % 100).alias("key"), (f.col("id") % 100).alias("n")
    )
    for _ in range(2):
        write(frame, shared, partitions=name, idColumn="key")
    rows = shared.rows(partition=name, max_bytes=10_000_000)
    assert Counter(json.loads(row["data"])["n"] for row in rows) == Counter(range(100))


def test_a_rejected_event_stops_the_write_unless_rejected_events_are_skipped(spark, shared, name):
    frame = spark.range(3).select(f.lit(name).alias("key"), "id").coalesce(1)
    with pytest.raises(PySparkException, match="skipRejected"):
        write(frame, shared, partitions=name, idColumn="key")
    write(frame, shared, partitions=name, idColumn="key", skipRejected="true")
    assert len(shared.rows(partition=name)) == 1


def test_a_batch_write_with_a_producer_id_is_stored_once(spark, shared, name, tmp_path):
    frame = spark.range(1_000)
    for partitions in (2, 5, 1):
        options = {"producerId": f"job {name}", "stagingLocation": str(tmp_path), "chunkBytes": "1000"}
        write(frame.repartition(partitions), shared, stream=name, **options)
    assert sorted(row["id"] for row in shared.read(name)) == list(range(1_000))
    with pytest.raises(PySparkException, match="choose another producerId"):
        write(frame, shared, stream=f"{name}-2", producerId=f"job {name}", stagingLocation=str(tmp_path))


@pytest.mark.parametrize("target", ["stream", "partitions"])
def test_a_write_is_repeated_when_its_data_is_gone(spark, shared, start_server, open_log, name, tmp_path, target):
    """The record of a write must not outlive its data, for example on another server or in a deleted stream."""
    options = {"producerId": f"job {name}", "stagingLocation": str(tmp_path), target: name}
    write(spark.range(50), shared, **options)
    other = open_log(start_server().url)
    write(spark.range(50).repartition(3), other, **options)
    where = {"prefix" if target == "stream" else "partition": name}
    assert len(other.rows(**where)) == 50
    write(spark.range(50), other, **options)
    assert len(other.rows(**where)) == 50


def test_a_batch_write_without_a_producer_id_appends_each_time_and_leaves_no_files(spark, shared, name, tmp_path):
    for _ in range(2):
        write(spark.range(10), shared, stream=name, stagingLocation=str(tmp_path))
    assert sorted(row["id"] for row in shared.read(name)) == sorted([*range(10), *range(10)])
    assert list((tmp_path / "mainstem-sink").iterdir()) == []


def test_messages_are_checked_before_the_first_one_is_sent(spark, shared, name):
    frame = spark.createDataFrame([("1",), ("{",)], "value STRING")
    with pytest.raises(PySparkException, match="not JSON"):
        write(frame, shared, stream=name)
    assert shared.read(name) == []


def test_overwriting_is_refused(spark, shared, name):
    with pytest.raises(PySparkException, match="append-only"):
        spark.range(1).write.format("mainstem").mode("overwrite").option("url", shared.url).option(
            "stream", name
        ).save()


def test_a_closed_stream_is_an_error(spark, shared, name):
    shared.append(name, [1])
    shared.http.post(f"/v1/stream/{name}", headers={"Stream-Closed": "true"})
    with pytest.raises(PySparkException, match=r"stream_closed.*another stream"):
        write(spark.range(1), shared, stream=name)


def test_the_staging_directory_holds_only_a_manifest_after_a_query(spark, rooms, name, tmp_path):
    pump(spark, rooms, f"{name}/in", tmp_path, lambda frame: frame.select("n"), stream=f"{name}/out")
    files = [path.name for path in (tmp_path / "checkpoint" / "mainstem-sink").rglob("*") if path.is_file()]
    assert files == ["manifest.json"]


def test_aggregates_that_change_are_written_by_batch(spark, rooms, name, tmp_path):
    """Spark does not allow update mode for Python sinks, but a batch write in foreachBatch is exactly-once, too."""
    reader = spark.readStream.format("mainstem").option("url", rooms.url).option("schema", "n INT, room STRING")
    counts = reader.load(f"{name}/in").groupBy("room").count()

    def put(frame, batch):
        where = {"producerId": f"{name} {batch}", "stagingLocation": str(tmp_path / "stage")}
        write(frame, rooms, stream=f"{name}/counts", **where)
        write(frame, rooms, stream=f"{name}/counts", **where)

    for _ in range(2):
        writer = counts.writeStream.outputMode("update").foreachBatch(put)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(60)
        rooms.append(f"{name}/in", [{"n": 0, "room": "r3"}])
    found = rooms.read(f"{name}/counts")
    assert Counter(row["room"] for row in found) == Counter({f"r{room}": 1 for room in range(10)} | {"r3": 2})
    assert found[-1] == {"room": "r3", "count": 51}
