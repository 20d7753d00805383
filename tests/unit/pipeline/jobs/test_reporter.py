"""What a job reports of its rounds, without Spark."""

import errno
import signal

import msgspec
import pytest

from mainstem import limits
from mainstem.errors import JobFailed, RequestRefused, ServerUnreachable
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext, Summary
from mainstem.pipeline.jobs.reporter import JobReporter
from mainstem.pipeline.jobs.runner import run_every, run_once


class CountingSummary(Summary, kw_only=True):
    bytes: int = 0
    files: int = 0
    found: dict[str, int] = msgspec.field(default_factory=dict)
    source: str = ""
    targets: list[str] = msgspec.field(default_factory=lambda: ["x"])
    dry_run: bool = False


@pytest.fixture
def server(start_thread):
    return start_thread()


@pytest.fixture
def client(server, connect_to):
    return connect_to(server)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def context(server, tmp_path):
    return JobContext(ServerOptions(server.url), tmp_path / "My Lake")


@pytest.fixture
def reporter(context, warnings):
    return JobReporter(context.server, "archive", context.checkpoint, warnings.append)


def last(client):
    return client.get("/v1/jobs").json()["jobs"]


def history(client):
    reply = client.get("/v1/stream/_mainstem/jobs")
    return [] if reply.status_code == 404 else reply.json()


def test_a_round_is_reported_with_what_its_summary_counts(context, reporter, client, warnings):
    client.put("/v1/stream/a", json=[1])

    def job(context):
        context.details = {"table": "s3://lake/log", "version": 4}
        return CountingSummary(
            job="archive", rows=5, committed_id=1, bytes=6, files=7, found={"id": 2}, source="s3://k:s@b", faults=2
        )

    summary = run_once(job, context, reporter)
    [found] = last(client)
    assert (found["job"], found["name"], found["round"]) == ("archive", "my-lake", 1)
    assert (found["rows"], found["bytes"], found["faults"], found["error"]) == (5, 6, 2, None)
    assert (found["position"], found["lag"], found["duration_s"]) == (1, 1, summary.seconds)
    assert found["details"] == {"files": 7, "found": {"id": 2}, "table": "s3://lake/log", "version": 4}
    assert warnings == []


def test_a_failed_round_is_reported_and_still_fails(context, reporter, client):
    def job(context):
        raise JobFailed("cannot write s3://key:secret@lake/log")

    with pytest.raises(JobFailed):
        run_once(job, context, reporter)
    [found] = last(client)
    assert (found["error"], found["faults"], found["rows"]) == ("cannot write s3://lake/log", 0, 0)


def test_a_fault_of_this_machine_is_reported(context, reporter, client):
    def job(context):
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    with pytest.raises(OSError, match="No space left"):
        run_once(job, context, reporter)
    assert "No space left on device" in last(client)[0]["error"]


@pytest.mark.parametrize(
    "error",
    [ServerUnreachable("it did not answer"), RequestRefused("no", refused=401), RequestRefused("no", refused=403)],
)
def test_nothing_is_reported_to_a_server_that_does_not_answer_or_refuses_the_token(
    context, reporter, client, warnings, error
):
    def job(context):
        raise error

    with pytest.raises(type(error)):
        run_once(job, context, reporter)
    assert (last(client), warnings) == ([], [])


def test_a_dry_run_is_not_reported(server, tmp_path, reporter, client):
    context = JobContext(ServerOptions(server.url), tmp_path, dry_run=True)
    run_once(lambda _: Summary(job="archive", rows=5), context, reporter)
    assert last(client) == []


def test_a_server_that_refuses_the_report_does_not_fail_the_round(context, reporter, client, warnings):
    client.put("/v1/stream/_mainstem/jobs", headers={"content-type": "text/plain"})
    assert run_once(lambda _: Summary(job="archive", rows=5), context, reporter).rows == 5
    assert len(warnings) == 1
    assert "jobs_stream_unusable" in warnings[0]


def test_many_quick_rounds_are_reported_together_and_always_the_last(context, reporter, client, monkeypatch):
    monkeypatch.setattr(limits, "JOB_REPORT_EVERY_S", 3600.0)
    shown: list[Summary] = []

    def job(context):
        if len(shown) == 5:
            signal.raise_signal(signal.SIGINT)  # its handler has run when this returns
        return Summary(job="archive", rows=len(shown) + 1, committed_id=1_000 * len(shown))

    run_every(job, context, 0.001, shown.append, reporter)
    assert [one["rows"] for one in history(client)] == [1, 2 + 3 + 4 + 5 + 6]
    assert last(client)[0]["position"] == 5_000


def test_a_round_with_faults_is_reported_at_once(context, reporter, client, monkeypatch):
    monkeypatch.setattr(limits, "JOB_REPORT_EVERY_S", 3600.0)
    found = iter([0, 0, 3])
    for _ in range(3):
        run_once(lambda _: Summary(job="archive", rows=1, faults=next(found)), context, reporter)
    assert [one["faults"] for one in history(client)] == [0, 3]
