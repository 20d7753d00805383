"""Killed servers, failing tasks, expired tokens, pruned history: no row is lost or stored twice."""

import json
import os
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.support.issuers import write_secret
from tests.support.waits import eventually

pytestmark = pytest.mark.slow

ROWS = 2_000


def reading(spark, log, **options):
    reader = spark.readStream.format("mainstem").option("url", log.url).option("schema", "n INT").options(**options)
    return reader.load("in").select("n")


def writing(frame, log, folder, **options):
    writer = frame.writeStream.format("mainstem").option("url", log.url).option("stream", "out").options(**options)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)


def fill(log, first=0):
    log.append("in", [{"n": number} for number in range(first, first + ROWS)], at_once=100)


def assert_once(log, rows=ROWS):
    assert sorted(row["n"] for row in log.read("out")) == list(range(rows))


def hold(folder):
    """Rows wait in their tasks until the file `go` exists. The file `reached` shows that some are waiting."""
    reached, go = str(folder / "reached"), str(folder / "go")

    def wait(batches):
        for batch in batches:
            Path(reached).touch()
            deadline_s = time.monotonic() + 60
            while not os.path.exists(go) and time.monotonic() < deadline_s:
                time.sleep(0.01)
            yield batch

    return wait


def test_a_server_killed_while_it_is_read_costs_no_row(spark, start_on_fixed_port, open_log, tmp_path):
    server = start_on_fixed_port()
    log = open_log(server.url)
    fill(log)
    frame = reading(spark, log, pageBytes=2_000).mapInArrow(hold(tmp_path), "n INT")
    query = writing(frame, log, tmp_path).start()
    eventually((tmp_path / "reached").exists)
    server.kill()
    (tmp_path / "go").touch()
    server.start()
    assert query.awaitTermination(90)
    assert_once(log)


def test_a_server_killed_while_it_is_written_to_costs_no_row(spark, start_on_fixed_port, open_log, tmp_path):
    server = start_on_fixed_port()
    log = open_log(server.url)
    fill(log)
    before = log.head_id()
    query = writing(reading(spark, log), log, tmp_path, chunkBytes=100).start()
    eventually(lambda: log.head_id() > before + 10)
    server.kill()
    server.start()
    assert log.head_id() < before + ROWS // 12, "the server was killed too late"
    assert query.awaitTermination(90)
    assert_once(log)


def test_a_server_killed_while_events_are_submitted_costs_no_event(spark, start_on_fixed_port, open_log, tmp_path):
    server = start_on_fixed_port()
    log = open_log(server.url)
    fill(log)
    before = log.head_id()
    frame = reading(spark, log)
    writer = frame.writeStream.format("mainstem").option("url", log.url).option("partitions", "room")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    eventually(lambda: log.head_id() > before + 100)
    server.kill()
    server.start()
    assert query.awaitTermination(90)
    rows = log.rows(partition="room", max_bytes=60_000_000)
    assert sorted(json.loads(row["data"])["n"] for row in rows) == list(range(ROWS))


def test_a_server_that_stays_down_ends_the_query_and_the_next_run_continues(
    spark, start_on_fixed_port, open_log, tmp_path
):
    server = start_on_fixed_port()
    log = open_log(server.url)
    fill(log)
    before = log.head_id()
    query = writing(reading(spark, log), log, tmp_path, chunkBytes=100, retrySeconds=1).start()
    eventually(lambda: log.head_id() > before + 10)
    server.kill()
    with pytest.raises(StreamingQueryException, match="did not answer POST"):
        query.awaitTermination(90)
    server.start()
    assert 0 < len(log.read("out")) < ROWS
    writing(reading(spark, log, minPartitions=7), log, tmp_path).start().awaitTermination(90)
    assert_once(log)


def test_tasks_that_fail_at_first_and_are_retried(spark, start_server, open_log, tmp_path):
    log = open_log(start_server().url)
    fill(log)

    def stumble(batches):
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for number, batch in enumerate(batches):
            if number == 1 and task.attemptNumber() < 2 and task.partitionId() % 2:
                raise RuntimeError("this attempt fails in the middle of its rows")
            yield batch

    frame = reading(spark, log, pageBytes=2_000, minPartitions=4).mapInArrow(stumble, "n INT")
    query = writing(frame, log, tmp_path, chunkBytes=500).start()
    assert query.awaitTermination(90)
    assert_once(log)


def test_tasks_that_fail_permanently_leave_nothing_in_the_stream(spark, start_server, open_log, tmp_path):
    log = open_log(start_server().url)
    fill(log)

    def fail(batches):
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for batch in batches:
            if task.partitionId() == 1:
                raise RuntimeError("always")
            yield batch

    frame = reading(spark, log, minPartitions=4).mapInArrow(fail, "n INT")
    with pytest.raises(StreamingQueryException, match="always"):
        writing(frame, log, tmp_path).start().awaitTermination(90)
    assert log.read("out") == []
    writing(reading(spark, log), log, tmp_path).start().awaitTermination(90)
    assert_once(log)


def test_an_expired_token_stops_the_query_and_a_new_one_continues_it(spark, start_server, open_log, tmp_path):
    issuer = write_secret(tmp_path / "secret")
    server = start_server("--jwt-secret-file", str(tmp_path / "secret"))
    good = issuer.token(client_id="t", admin=True)
    log = open_log(server.url, good)
    fill(log)
    short = issuer.token(client_id="t", admin=True, exp=time.time() + 5)
    before = log.head_id()
    held = reading(spark, log, token=short).mapInArrow(hold(tmp_path), "n INT")
    query = writing(held, log, tmp_path, token=short, chunkBytes=100).start()
    eventually(lambda: (tmp_path / "reached").exists() or not query.isActive)
    eventually(lambda: open_status(log, short) == 401)
    (tmp_path / "go").touch()
    with pytest.raises(StreamingQueryException, match="Run this again with a valid token"):
        query.awaitTermination(90)
    assert log.head_id() == before
    writing(reading(spark, log, token=good), log, tmp_path, token=good).start().awaitTermination(90)
    assert_once(log)


def test_a_token_file_may_be_renewed_while_a_query_runs(spark, start_server, open_log, tmp_path):
    issuer = write_secret(tmp_path / "secret")
    server = start_server("--jwt-secret-file", str(tmp_path / "secret"))
    log = open_log(server.url, issuer.token(client_id="t", admin=True))
    fill(log)
    file = tmp_path / "token"
    file.write_text("not a token yet\n")
    query = writing(reading(spark, log, tokenFile=str(file)), log, tmp_path, tokenFile=str(file)).start()
    time.sleep(0.5)  # so that the server refuses its first request
    file.write_text(issuer.token(client_id="t", admin=True) + "\n")
    assert query.awaitTermination(90)
    assert_once(log)


def open_status(log, token):
    return log.http.get("/v1/log/head", headers={"Authorization": f"Bearer {token}"}).status_code


def test_history_that_was_pruned_below_the_checkpoint(spark, start_server, open_log, tmp_path):
    """The query reads events 1 to 100. Events 101 to 200 are pruned before it reads them: it must fail."""
    log = open_log(start_server().url)

    def submit(first):
        frame = spark.range(first, first + 100).selectExpr("id AS n").coalesce(1)
        writer = frame.write.format("mainstem").mode("append").option("url", log.url)
        writer.option("partitions", "room").option("stagingLocation", str(tmp_path / "stage")).save()

    def follow(**options):
        reader = spark.readStream.format("mainstem").option("url", log.url).options(**options)
        frame = reader.option("schema", "n INT").load().select("n")
        writing(frame, log, tmp_path).start().awaitTermination(90)

    submit(0)
    follow(kind="event")
    submit(100)
    head = log.head_id()
    log.prune("room", head)
    submit(200)
    with pytest.raises(StreamingQueryException, match=r"pruned.*failOnDataLoss=false"):
        follow(kind="event")
    with pytest.raises(PySparkException, match="rows are lost"):
        spark.read.format("mainstem").option("url", log.url).option("startingId", 5).load().collect()
    follow(kind="event", failOnDataLoss="false")
    assert sorted(row["n"] for row in log.read("out")) == [*range(100), *range(200, 300)]
    follow(kind="event")  # the loss was reported once
    fresh = spark.read.format("mainstem").option("url", log.url).option("kind", "event").load()
    assert fresh.count() == 100
