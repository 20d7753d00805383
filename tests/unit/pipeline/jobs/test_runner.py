"""How jobs run, without Spark."""

import errno
import signal
import socket
from pathlib import Path

import pytest

from mainstem.errors import ServerUnreachable
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext, Summary
from mainstem.pipeline.jobs.runner import run_every, run_once


def test_a_full_disk_is_reported_as_such(start_server, tmp_path: Path):
    def job(context: JobContext) -> Summary:
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    with pytest.raises(OSError, match="No space left"):
        run_once(job, JobContext(ServerOptions(start_server().url), tmp_path))


def test_the_first_signal_ends_after_the_round_and_the_second_one_at_once(start_server, tmp_path: Path):
    context = JobContext(ServerOptions(start_server().url), tmp_path)
    before = signal.getsignal(signal.SIGINT)
    reported: list[Summary] = []

    def asked(times: int):
        def job(context: JobContext) -> Summary:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)  # its handler has run when this returns
            return Summary(job="test")

        return job

    run_every(asked(1), context, 60, reported.append)
    assert len(reported) == 1
    with pytest.raises(KeyboardInterrupt):
        run_every(asked(2), context, 60, reported.append)
    assert len(reported) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_wait_for_the_server_is_reported(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.PIPELINE_SILENT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    heard: list[str] = []
    with pytest.raises(ServerUnreachable, match=r"within 0.5 s: connection refused"):
        JobContext(ServerOptions(url, retry_s=0.5), tmp_path, on_wait=heard.append).check()
    assert len(heard) == 1
