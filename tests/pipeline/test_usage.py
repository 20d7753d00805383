"""A job that does not match its server or its files is refused before Spark starts."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from mainstem.errors import BadOption, BadPolicy, OtherLog
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.import_ import make_import
from mainstem.pipeline.jobs.retain.job import RetainOptions, make_retain
from mainstem.pipeline.jobs.retain.policies import parse_policies
from mainstem.pipeline.jobs.rollup import RollupOptions, make_rollup
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
from mainstem.pipeline.jobs.targets import TargetSelector
from mainstem.pipeline.lake.import_source import ImportSource
from tests.support.log_client import LogClient


@pytest.fixture
def context(log: LogClient, tmp_path: Path, monkeypatch) -> JobContext:
    """The context of a server with one message, in which Spark must not start."""
    log.append("a", [1])
    monkeypatch.setattr(JobContext, "spark", property(lambda self: pytest.fail("Spark was started")))
    return JobContext(ServerOptions(log.url), tmp_path / "checkpoint")


def refuse(job, context: JobContext, said: str, error=BadOption) -> None:
    with pytest.raises(error, match=said):
        run_once(job, context)


def test_an_archive_of_another_program(context, tmp_path):
    write_deltalake(tmp_path / "table", pa.table({"n": [1]}))
    refuse(make_archive(str(tmp_path / "table")), context, "give another location")


def test_an_audit_without_an_archive_is_refused(context, tmp_path):
    refuse(make_audit(AuditOptions(archive=str(tmp_path / "none"))), context, "no Delta table")


def test_a_directory_that_is_not_an_export_is_refused(context, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    refuse(make_export(str(tmp_path), ExportOptions("parquet")), context, "is not empty")


def test_a_delta_table_that_is_not_an_export_is_refused(context, tmp_path):
    write_deltalake(tmp_path / "table", pa.table({"n": [1]}))
    refuse(make_export(str(tmp_path / "table"), ExportOptions("delta")), context, "give another location")


@pytest.mark.parametrize(
    ("exported", "until", "said", "error"),
    [
        (ExportOptions("csv"), 10_000, "another server", OtherLog),
        (ExportOptions("csv", from_id=2), 1, "other options", BadOption),
    ],
)
def test_an_export_of_another_log_or_of_other_rows_is_refused(context, tmp_path, exported, until, said, error):
    (tmp_path / "out").mkdir()
    journal = {"asked": exported.request, "until": until, "pruned": 0}
    (tmp_path / "out" / "_export.json").write_text(json.dumps(journal))
    refuse(make_export(str(tmp_path / "out"), ExportOptions("csv")), context, said, error)


@pytest.mark.parametrize(("format_", "said"), [("csv", "there are no files at"), ("delta", "no Delta table")])
def test_an_import_of_nothing(context, tmp_path, format_, said):
    source = ImportSource(str(tmp_path / "none"), format_)
    refuse(make_import(source, {"stream": "a"}), context, said)


def test_retention_that_needs_an_archive_is_refused_without_one(context, tmp_path):
    text = f'[[policy]]\npartitions = "**"\nmax_events = 1\nrequire_archive = "{tmp_path / "none"}"'
    refuse(make_retain(RetainOptions(parse_policies(text))), context, "no archive", BadPolicy)


def test_a_checkpoint_of_another_rollup_is_refused(context):
    context.checkpoint.mkdir()
    (context.checkpoint / "rollup.json").write_text(json.dumps({"into": "rolled"}))
    refuse(make_rollup(RollupOptions("rolled", window="2m")), context, r"--window 1m.*another --checkpoint")


def test_a_checkpoint_of_other_snapshots_or_of_another_log_is_refused(context):
    options = SnapshotOptions(TargetSelector(("**",)), make_reducer("state"))
    checkpoint = {"plan": "another one", "url": context.server.url, "committed_id": 10_000}
    context.checkpoint.mkdir()
    (context.checkpoint / "place.json").write_text(json.dumps(checkpoint))
    refuse(make_snapshot(options), context, "other snapshots")
    (context.checkpoint / "place.json").write_text(json.dumps(checkpoint | {"plan": options.describe()}))
    refuse(make_snapshot(options), context, "another server", OtherLog)
