"""How jobs are run and how their faults are told, without Spark."""

import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from mainstem.errors import BadOption, HistoryLost, JobFailed, OtherLog, ServerUnreachable
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext, Summary
from mainstem.pipeline.jobs.runner import run_every, run_once
from mainstem.pipeline.spark.errors import explain
from mainstem.pipeline.spark.master import MASTER_VARIABLE, choose_master


@pytest.mark.parametrize("error", [HistoryLost("some rows went"), OtherLog("it is short"), ServerUnreachable("gone")])
def test_an_error_of_ours_in_what_spark_says_keeps_its_class_and_tells_its_hint_once(error):
    text = f"[STREAM_FAILED] Traceback:\n  File x\nmainstem.errors.{type(error).__name__}: {error}\n\n\tat java"
    found = explain(RuntimeError(text))
    assert type(found) is type(error)
    assert (found.detail, str(found)) == (error.detail, str(error))


class ParseException(Exception):
    """Has the name of Spark's."""


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            RuntimeError("An error occurred while calling o1.save.\n: java.X: no\n\tat y\nCaused by: java.Y: why"),
            JobFailed,
            "java.X: no java.Y: why",
        ),
        (OSError("Generic error\n  Not a directory"), JobFailed, "Generic error Not a directory"),
        (ParseException("near 'X'"), BadOption, "Spark does not understand the schema: near 'X'"),
        (ValueError(), JobFailed, "ValueError: no reason given"),
    ],
)
def test_what_others_say_comes_out_as_one_line(error, kind, said):
    found = explain(error)
    assert (type(found), found.detail) == (kind, said)


def test_a_spark_that_got_no_time_says_what_to_do():
    found = explain(
        RuntimeError("[STREAM_FAILED] x\norg.apache.spark.SparkException: Python worker failed to connect back.")
    )
    assert "MAINSTEM_SPARK_NICENESS=0" in found.detail
    assert "\n" not in found.detail


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]", "yarn", "spark://h:1", "sc://h:2"])
def test_masters_of_spark_are_passed_on(master, monkeypatch):
    monkeypatch.setenv(MASTER_VARIABLE, master)
    assert choose_master(None) == choose_master(master) == master


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "local[]", "http://h:1", "spark://"])
def test_other_masters_are_told_before_java_starts(master):
    with pytest.raises(BadOption, match="no master of Spark"):
        choose_master(master)


def test_a_full_disk_is_told_as_what_it_is(start_server, tmp_path: Path):
    def job(context: JobContext) -> Summary:
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    with pytest.raises(OSError, match="No space left"):
        run_once(job, JobContext(ServerOptions(start_server().url), tmp_path))


def test_the_first_signal_ends_the_rounds_and_the_second_one_the_round(start_server, tmp_path: Path):
    context = JobContext(ServerOptions(start_server().url), tmp_path)
    before = signal.getsignal(signal.SIGINT)
    told: list[Summary] = []

    def asked(times: int):
        def job(context: JobContext) -> Summary:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            return Summary(job="test")

        return job

    run_every(asked(1), context, 60, told.append)
    assert len(told) == 1
    with pytest.raises(KeyboardInterrupt):
        run_every(asked(2), context, 60, told.append)
    assert len(told) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_an_absent_server_is_waited_for_aloud(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.PIPELINE_SILENT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    heard: list[str] = []
    with pytest.raises(ServerUnreachable, match=r"within 0.5 s.*--retry of a job"):
        JobContext(ServerOptions(url, retry_s=0.5), tmp_path, on_wait=heard.append).check()
    assert len(heard) == 1
