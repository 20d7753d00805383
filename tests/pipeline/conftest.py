"""A server for each test of the jobs, and the jobs themselves: as functions, or as processes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from tests.support.command_line import PipelineShell
from tests.support.fixtures import OpenLog
from tests.support.log_client import LogClient

MASTER = "local[2]"


@pytest.fixture
def server(start_on_fixed_port: StartServer) -> ServerProcess:
    """An empty server for this test, which restarts at the same address."""
    return start_on_fixed_port()


@pytest.fixture
def log(server: ServerProcess, open_log: OpenLog) -> LogClient:
    return open_log(server.url)


@pytest.fixture
def context(spark, log: LogClient, tmp_path: Path) -> JobContext:
    """The context of a job, for this test's server."""
    return JobContext(ServerOptions(log.url), tmp_path / "checkpoint", master=MASTER)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[PipelineShell]:
    """Run `mainstem pipeline ...` as a process."""
    with closing(PipelineShell(tmp_path)) as commands:
        yield commands
