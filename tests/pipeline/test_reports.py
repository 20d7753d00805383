"""Jobs report their rounds to the server, and never depend on it."""

import shutil
from contextlib import closing

import pytest

from mainstem.errors import StorageFailed
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import ArchiveSummary, make_archive
from mainstem.pipeline.jobs.audit.job import AuditOptions, AuditSummary, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.reporter import JobReporter
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.delta import load_table
from tests.pipeline.conftest import MASTER
from tests.pipeline.planted import opened
from tests.support.http_gates import HttpGate
from tests.support.waits import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def reporter(context):
    return JobReporter(context.server, "archive", context.checkpoint, pytest.fail)


def last(log):
    return log.http.get("/v1/jobs").raise_for_status().json()["jobs"]


def history(log):
    return log.http.get("/v1/stream/_mainstem/jobs").raise_for_status().json()


def test_a_round_of_the_archive_arrives_with_its_table(log, context, reporter, tmp_path):
    rows = log.fill()
    table = str(tmp_path / "table")
    done = run_once(make_archive(table), context, reporter)
    assert isinstance(done, ArchiveSummary)
    assert done.rows == rows
    [found] = last(log)
    assert history(log) == [found]
    assert (found["job"], found["name"], found["round"]) == ("archive", "checkpoint", 1)
    assert (found["rows"], found["bytes"], found["position"]) == (rows, done.bytes, done.committed_id)
    assert (found["lag"], found["faults"], found["error"]) == (0, 0, None)
    assert found["duration_s"] == done.seconds
    archive = load_table(table)
    details = found["details"]
    assert (details["table"], details["version"]) == (table, archive.version())
    assert (details["files"], details["commits"]) == (len(archive.file_uris()), done.commits)
    assert details["bytes"] >= done.bytes > 0


def test_rounds_that_archive_only_reports_leave_the_log_alone(log, context, reporter, tmp_path):
    log.fill()
    job = make_archive(str(tmp_path / "table"))
    for _ in range(2):
        run_once(job, context, reporter)
    head = log.head_id()
    reporter.flush()
    for _ in range(2):
        assert run_once(job, context, reporter).rows == 0
    reporter.flush()
    assert log.head_id() == head
    assert [found["round"] for found in history(log)] == [1]
    log.append("more", [1])
    assert run_once(job, context, reporter).rows == 1
    reporter.flush()
    assert len(history(log)) == 2


def test_a_failed_round_arrives_with_its_reason(log, context, reporter, tmp_path):
    log.fill()
    table = tmp_path / "table"
    run_once(make_archive(str(table)), context, reporter)
    reached = last(log)[0]["position"]
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").write_text("in the way")
    log.append("more", [1])
    with pytest.raises(StorageFailed):
        run_once(make_archive(str(table)), context, reporter)
    [found] = last(log)
    assert (found["round"], found["position"]) == (2, reached)
    assert str(table) in found["error"]
    assert found["lag"] > 0
    assert history(log)[-1] == found


def test_an_audit_reports_its_findings_as_faults(spark, server, log, tmp_path):
    log.fill()
    with opened(server) as store:
        store.remove(store.appends_to("orders/1")[4])
    context = JobContext(ServerOptions(log.url), tmp_path / "checkpoint", master=MASTER)
    done = run_once(
        make_audit(AuditOptions()), context, JobReporter(context.server, "audit", context.checkpoint, pytest.fail)
    )
    assert isinstance(done, AuditSummary)
    [found] = last(log)
    assert (found["job"], found["faults"]) == ("audit", done.faults)
    assert found["details"]["found"] == done.found != {}


@pytest.mark.timeout(300)
def test_the_command_succeeds_although_the_server_is_killed_during_the_report(log, server, pipeline, tmp_path):
    rows = log.fill()
    killed = []

    def kill_server(method, path):
        if (method, path) == ("POST", "/v1/jobs"):
            server.kill()
            killed.append(path)
        return False

    with closing(HttpGate(log.url, kill_server)) as gate:
        table = tmp_path / "table"
        done = pipeline("archive", table, "--url", gate.url, "--master", MASTER, "--json", "--checkpoint", "lake-eu")
    assert killed == ["/v1/jobs"]
    assert done.code == 0
    assert done.summary["rows"] == rows
    assert done.errors.startswith("mainstem: this round of lake-eu was not reported: ")
    assert done.errors.count("\n") == 1
    server.start()
    assert last(log) == []
    pipeline.ok("archive", table, "--url", log.url, "--master", MASTER, "--checkpoint", "lake-eu")
    [found] = last(log)
    assert (found["job"], found["name"], found["rows"]) == ("archive", "lake-eu", 0)


@pytest.mark.timeout(300)
def test_a_continuous_command_reports_its_rounds(log, pipeline, tmp_path):
    log.fill()
    arguments = ("--url", log.url, "--master", MASTER, "--json", "--every", "0.1")
    running = pipeline.spawn("archive", tmp_path / "table", *arguments)
    eventually(lambda: last(log), within_s=100, unless=lambda: running.ending)
    log.append("more", [1])
    eventually(lambda: len(history(log)) == 2, within_s=60, unless=lambda: running.ending)
    running.process.terminate()
    done = running.wait()
    assert (done.code, done.errors) == (0, "")
    assert history(log)[1]["rows"] in (1, 2)  # perhaps together with the first report
    assert last(log)[0]["name"] == "archive"
