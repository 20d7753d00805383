"""Errors of workers, which Spark reports as text, and other exceptions of Spark."""

import io

import pytest
from pyspark.errors import ParseException
from pyspark.util import handle_worker_exception

from mainstem.cli.failures import ExitCode
from mainstem.cli.failures import explain as explain_to_people
from mainstem.errors import (
    BadOption,
    BadRow,
    HistoryLost,
    JobFailed,
    MainstemError,
    MissingSpark,
    OtherLog,
    RequestRefused,
    ServerUnreachable,
)
from mainstem.pipeline.spark.errors import explain


def report(error: Exception) -> RuntimeError:
    """Return what Spark's driver raises when a worker has failed, made by the function that reports it there."""
    sent = io.BytesIO()
    try:
        try:
            raise HistoryLost("an earlier one, which led to this")
        except HistoryLost as cause:
            raise error from cause
    except type(error):
        handle_worker_exception(error, sent)
    text = sent.getvalue()[8:].decode()
    return RuntimeError(f"[STREAM_FAILED] Query failed: {text}\n\tat org.apache.spark.Java: 7\n")


@pytest.mark.parametrize(
    "error",
    [
        HistoryLost("some rows went"),
        OtherLog("it is short"),
        ServerUnreachable("gone: for long"),
        BadRow("one line\nand another"),
        RequestRefused("403 forbidden: no", refused=403, refusal="forbidden"),
    ],
)
def test_an_error_of_a_worker_keeps_its_code_and_facts_and_has_its_hint_once(error):
    found = explain(report(error))
    assert type(found) is type(error)
    assert (found.code, found.detail, str(found), found.facts) == (error.code, error.detail, str(error), error.facts)


@pytest.mark.parametrize("hidden", ["", "1"])
def test_the_error_does_not_depend_on_how_spark_shows_tracebacks(hidden, monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", hidden)
    assert explain(report(OtherLog("it is short"))).detail == "it is short"


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_refused_in_a_worker_decides_the_exit_code(status):
    found = explain(report(RequestRefused("no", refused=status)))
    assert explain_to_people(found).exit_code == ExitCode.DENIED


def test_an_unknown_code_is_an_internal_error():
    found = explain(RuntimeError('x\nmainstem.errors.New: y\nmainstem error {"code":"of_tomorrow"}\n'))
    assert type(found) is MainstemError


def test_a_truncated_report_is_a_failed_job():
    found = explain(RuntimeError('x\nmainstem.errors.HistoryLost: y\nmainstem error {"code":"histo'))
    assert type(found) is JobFailed


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            RuntimeError("An error occurred while calling o1.save.\n: java.X: no\n\tat y\nCaused by: java.Y: why"),
            JobFailed,
            "Spark stopped the job: no why",
        ),
        (OSError("Generic error\n  Not a directory"), JobFailed, "Generic error Not a directory"),
        (
            RuntimeError(
                "An error occurred while calling o1.save.\n"
                ": org.apache.spark.SparkException: [X.Y] it broke. SQLSTATE: KD001"
            ),
            JobFailed,
            "Spark stopped the job: [X.Y] it broke.",
        ),
        (
            RuntimeError(
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///d/a.csv. SQLSTATE: KD001"
            ),
            BadOption,
            "cannot read /d/a.csv: it is damaged, or has another format than the import expects",
        ),
        (
            RuntimeError(
                "[FAILED_READ_FILE] file file:///d/a.csv. [MALFORMED_CSV_RECORD] Malformed CSV record: 3 SQLSTATE: 1"
            ),
            BadRow,
            "/d/a.csv has a line that does not fit its header (3): correct the file",
        ),
        (ParseException("near 'X'"), BadOption, "the schema is not valid: write the schema as names and types, like "),
        (
            ParseException('Unsupported data type "X".'),
            BadOption,
            "Spark has no type X: write the schema as names and types",
        ),
        (ValueError(), JobFailed, "Spark stopped the job: ValueError: no reason given"),
    ],
)
def test_other_exceptions_become_one_line_without_class_names(error, kind, said):
    found = explain(error)
    assert type(found) is kind
    assert found.detail.startswith(said)
    assert "\n" not in found.detail


def test_a_starved_spark_is_explained():
    found = explain(
        RuntimeError("[STREAM_FAILED] x\norg.apache.spark.SparkException: Python worker failed to connect back.")
    )
    assert "MAINSTEM_SPARK_NICENESS=0" in found.detail
    assert "\n" not in found.detail


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", JobFailed, "Java has not enough memory"),
        ("An error occurred: Error while sending or receiving", JobFailed, "Java has ended in the middle of the job"),
        ("ModuleNotFoundError: No module named 'mainstem'", MissingSpark, "has no module mainstem"),
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", BadOption, "hadoop-aws"),
    ],
)
def test_failures_of_the_machines_are_explained(text, kind, said):
    found = explain(RuntimeError(text))
    assert isinstance(found, kind)
    assert said in found.detail
