"""What the listener reports of Spark's events, without Spark's Java; tests/spark has the real ones."""

import uuid

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from mainstem import limits
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.reports import ReportSender
from mainstem.pipeline.spark.query_reporter import QueryReporter
from tests.support.waits import eventually

TIME = "2026-05-01T00:00:00Z"


class Run:
    """The events of one run of a query."""

    def __init__(self, reporter, name="My Query"):
        self.reporter = reporter
        self.ids = {"id": str(uuid.uuid4()), "runId": str(uuid.uuid4())}
        self.name = name

    def start(self):
        self.reporter.onQueryStarted(QueryStartedEvent(**self.uuids, name=self.name, timestamp=TIME, jobTags=set()))

    @property
    def uuids(self):
        return {name: uuid.UUID(value) for name, value in self.ids.items()}

    def progress(self, batch, *sources, rows=3):
        described = [
            {
                "description": "a source",
                "startOffset": None,
                "endOffset": end,
                "latestOffset": latest,
                "numInputRows": rows,
                "inputRowsPerSecond": 1.0,
                "processedRowsPerSecond": 1.0,
                "metrics": {},
            }
            for end, latest in sources
        ]
        found = self.ids | {
            "name": self.name,
            "timestamp": TIME,
            "batchId": batch,
            "batchDuration": 1500,
            "durationMs": {},
            "eventTime": {},
            "stateOperators": [],
            "sources": described,
            "sink": {"description": "a sink", "numOutputRows": 2, "metrics": {}},
            "numInputRows": rows,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 1.0,
            "observedMetrics": {},
        }
        self.reporter.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(found)))

    def idle(self):
        self.reporter.onQueryIdle(QueryIdleEvent(**self.uuids, timestamp=TIME))

    def end(self, exception=None):
        self.reporter.onQueryTerminated(
            QueryTerminatedEvent(**self.uuids, exception=exception, errorClassOnException=None)
        )


@pytest.fixture
def client(start_thread, connect_to):
    return connect_to(start_thread())


@pytest.fixture
def reporter(client):
    sender = ReportSender(ServerOptions(str(client.base_url).rstrip("/")), pytest.fail)
    reporter = QueryReporter(sender)
    yield reporter
    reporter.close()


@pytest.fixture
def rarely(monkeypatch):
    """The second report of a query waits for as long as the test runs."""
    monkeypatch.setattr(limits, "JOB_REPORT_EVERY_S", 3600.0)


def history(client):
    reply = client.get("/v1/stream/_mainstem/jobs")
    return [] if reply.status_code == 404 else reply.json()


def wait_for(client, count):
    return eventually(lambda: found if len(found := history(client)) >= count else None)


def test_a_batch_is_reported(reporter, client):
    run = Run(reporter)
    run.start()
    run.progress(4, ('{"committed_id": 7}', '{"committed_id": 9}'))
    [found] = wait_for(client, 1)
    assert (found["job"], found["name"], found["round"]) == ("query", "my-query", 4)
    assert (found["rows"], found["duration_s"], found["started_at"]) == (3, 1.5, TIME)
    assert (found["position"], found["lag"]) == (7, 2)
    assert found["details"] == {"query_id": run.ids["id"], "run_id": run.ids["runId"], "output_rows": 2}


@pytest.mark.parametrize(
    ("sources", "position", "lag"),
    [
        ([('{"committed_id": 7}', None)], 7, 0),
        ([('{"committed_id": 7}', '{"committed_id": 9}'), ('{"committed_id": 5}', '{"committed_id": 6}')], 5, 2),
        ([('{"committed_id": 7, "pruned": 3}', "null"), ("12", "13")], 7, 0),
        ([('{"topic": {"0": 5}}', '{"topic": {"0": 9}}')], 0, 0),
        ([("not JSON", '{"committed_id": "9"}')], 0, 0),
        ([], 0, 0),
    ],
)
def test_the_position_is_that_of_the_sources_that_read_the_log(reporter, client, sources, position, lag):
    Run(reporter).progress(0, *sources)
    [found] = wait_for(client, 1)
    assert (found["position"], found["lag"]) == (position, lag)


def test_a_query_without_a_name_is_named_by_its_id(reporter, client):
    run = Run(reporter, name=None)
    run.progress(0)
    assert wait_for(client, 1)[0]["name"] == f"query-{run.ids['id'][:8]}"


def test_of_many_quick_batches_the_last_is_reported_when_the_query_ends(rarely, reporter, client):
    run = Run(reporter)
    run.progress(0)
    wait_for(client, 1)
    for batch in range(1, 50):
        run.progress(batch)
    run.end()
    assert [(one["round"], one["rows"]) for one in wait_for(client, 2)] == [(0, 3), (49, 3 * 49)]


def test_of_many_quick_batches_the_last_is_reported_when_the_reporter_closes(rarely, reporter, client):
    run, other = Run(reporter), Run(reporter, "other")
    for one in (run, other):
        one.progress(0)
    wait_for(client, 2)
    for batch in (1, 2, 3):
        run.progress(batch)
    reporter.close()
    assert sorted((one["name"], one["round"]) for one in history(client)) == [
        ("my-query", 0),
        ("my-query", 3),
        ("other", 0),
    ]


def test_a_failure_is_reported_with_its_reason(rarely, reporter, client):
    run = Run(reporter)
    run.progress(0, ('{"committed_id": 7}', None))
    wait_for(client, 1)
    run.progress(1, ('{"committed_id": 8}', None))
    python = (
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise ValueError()\nValueError: boom\n'
    )
    run.end(f"py4j.Py4JException: An exception was raised. Return Message: {python}\n\tat py4j.Protocol\n")
    found = wait_for(client, 2)[-1]
    assert (found["error"], found["round"], found["position"]) == ("ValueError: boom", 2, 8)


def test_an_idle_query_stays_in_the_list_and_leaves_the_stream_alone(rarely, reporter, client):
    run = Run(reporter)
    run.progress(5, ('{"committed_id": 7}', None))
    [before] = wait_for(client, 1)
    run.idle()
    run.end()

    def confirmed():
        [found] = client.get("/v1/jobs").json()["jobs"]
        return found if found["rows"] == 0 else None

    found = eventually(confirmed)
    assert (found["round"], found["position"], found["error"]) == (5, 7, None)
    assert history(client) == [before]


def test_a_query_that_was_never_seen_may_end(reporter, client):
    Run(reporter).end()
    Run(reporter).idle()
    run = Run(reporter)
    run.progress(0)
    assert len(wait_for(client, 1)) == 1


def test_only_so_many_queries_are_followed(rarely, reporter, client, monkeypatch):
    monkeypatch.setattr(limits, "QUERIES_REPORTED_MAX", 2)
    runs = [Run(reporter, f"q{number}") for number in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.progress(0)
    wait_for(client, 2)
    runs[0].end()
    reporter.close()
    assert sorted(one["name"] for one in history(client)) == ["q0", "q1"]
