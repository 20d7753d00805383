"""Streaming queries of a real Spark report their batches."""

import logging
import re

import pytest
from pyspark.errors import StreamingQueryException

from mainstem.errors import BadOption
from mainstem.pipeline import report_queries, show_progress
from tests.support.issuers import write_secret
from tests.support.waits import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def log(start_thread, open_log):
    return open_log(start_thread().url)


@pytest.fixture
def reports(spark, log):
    reporter = report_queries(spark, log.url)
    yield reporter
    reporter.close()


def last(log):
    return log.http.get("/v1/jobs").raise_for_status().json()["jobs"]


def history(log):
    reply = log.http.get("/v1/stream/_mainstem/jobs")
    return [] if reply.status_code == 404 else reply.json()


def follow(spark, log, folder, name, sink="noop", token=None, **options):
    reader = spark.readStream.format("mainstem").option("url", log.url).options(**options)
    reader = reader.option("token", token) if token else reader
    writer = reader.load().writeStream.format(sink).option("checkpointLocation", str(folder))
    return writer.queryName(name) if name else writer


def test_every_batch_arrives_in_the_stream_and_the_last_in_the_list(spark, log, reports, tmp_path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.JOB_REPORT_EVERY_S", 0.0)
    log.append("in", list(range(30)), at_once=10)
    query = follow(spark, log, tmp_path, "My Orders", maxRowsPerTrigger="10").trigger(availableNow=True).start()
    query.awaitTermination()
    reports.close()
    found = history(log)
    assert sum(one["rows"] for one in found) == 30
    assert [one["round"] for one in found] == list(range(len(found)))
    assert {(one["job"], one["name"], one["error"]) for one in found} == {("query", "my-orders", None)}
    assert [one["position"] for one in found] == sorted(one["position"] for one in found)
    assert found[-1]["details"]["query_id"] == str(query.id)
    assert all(one["duration_s"] > 0 for one in found)
    assert last(log) == found[-1:]


def test_the_lag_is_what_a_bounded_batch_has_left(spark, log, reports, tmp_path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.JOB_REPORT_EVERY_S", 0.0)
    log.append("in", list(range(30)), at_once=10)
    head = log.head_id()
    query = follow(spark, log, tmp_path, "bounded", maxRowsPerTrigger="10").start()
    query.processAllAvailable()
    query.stop()
    reports.close()
    first = history(log)[0]
    assert (first["rows"], first["position"], first["lag"]) == (10, head - 2, 2)
    assert first["details"]["seconds_behind"] > 0


def test_progress_is_shown_in_a_line_per_batch(spark, log, tmp_path):
    log.append("in", list(range(30)), at_once=10)
    head = log.head_id()
    lines: list[str] = []
    printer = show_progress(spark, lines.append)
    query = follow(spark, log, tmp_path, "bounded", maxRowsPerTrigger="20").trigger(availableNow=True).start()
    query.awaitTermination()
    eventually(lambda: len(lines) >= 2)
    printer.close()
    printer.close()
    assert re.fullmatch(
        rf"bounded, batch 0: 20 rows, \d+ rows/s, at id {head - 1}, 1 ids and \d+\.\d s behind", lines[0]
    )
    assert re.fullmatch(rf"bounded, batch 1: 10 rows, \d+ rows/s, at id {head}, up to date", lines[1])


def test_a_query_over_the_whole_log_does_not_report_its_own_reports_for_ever(spark, log, reports, tmp_path):
    log.append("in", [1, 2, 3])
    query = follow(spark, log, tmp_path, "everything").start()
    eventually(lambda: history(log), within_s=60)
    query.processAllAvailable()
    eventually(lambda: last(log)[0]["position"] >= log.head_id(), within_s=60)  # it has read the report of its batch
    query.stop()
    reports.close()
    assert [one["rows"] for one in history(log)] == [3]
    assert last(log)[0]["round"] > 0


def test_a_query_that_fails_arrives_with_its_reason(spark, log, reports, tmp_path):
    log.append("in", [1])

    def fail(frame, batch):
        raise ValueError("no such shop")

    query = follow(spark, log, tmp_path, None).foreachBatch(fail).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    reports.close()
    [found] = last(log)
    assert found["name"] == f"query-{str(query.id)[:8]}"
    assert found["error"] == "ValueError: no such shop"
    assert history(log) == [found]


def test_a_server_that_is_away_delays_no_query(spark, log, start_thread, tmp_path, caplog):
    away = start_thread()
    away.stop()
    log.append("in", [1, 2])
    reporter = report_queries(spark, away.url)
    with caplog.at_level(logging.WARNING, logger="mainstem.pipeline.spark.query_reporter"):
        query = follow(spark, log, tmp_path, "unreported").trigger(availableNow=True).start()
        query.awaitTermination()
        reporter.close()
    assert sum(int(progress["numInputRows"]) for progress in query.recentProgress) == 2
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "this round of unreported was not reported"
    ]


def test_the_token_of_an_administrator_is_sent(spark, start_thread, open_log, tmp_path):
    secret = write_secret(tmp_path / "secret")
    server = start_thread(jwt_secret_file=str(tmp_path / "secret"))
    token = secret.token(admin=True)
    log = open_log(server.url, token)
    log.append("in", [1])
    (tmp_path / "token").write_text(token)
    reporter = report_queries(spark, server.url, token_file=str(tmp_path / "token"))
    query = follow(spark, log, tmp_path / "checkpoint", "guarded", token=token).trigger(availableNow=True).start()
    query.awaitTermination()
    reporter.close()
    assert [one["name"] for one in last(log)] == ["guarded"]


def test_an_invalid_url_is_refused_at_once(spark):
    with pytest.raises(BadOption, match="url must be like"):
        report_queries(spark, "localhost:4437")
