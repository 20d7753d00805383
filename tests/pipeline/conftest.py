"""A server for each test of the jobs, and the jobs themselves: called, or as processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mainstem.pipeline.http_client import Endpoint
from mainstem.pipeline.jobs.runner import Workbench
from mainstem.testing.server import ServerProcess
from tests.pipeline.commands import Commands
from tests.pipeline.filled import Log

MASTER = "local[2]"


@pytest.fixture
def follow() -> Iterator[Callable[..., Log]]:
    """Opens logs of servers, and closes them with the test."""
    with ExitStack() as stack:
        yield lambda url, token=None: stack.enter_context(closing(Log(url, token)))


@pytest.fixture
def server(start_server) -> ServerProcess:
    """One of this test's own, empty, which comes back at the same address."""
    started = start_server()
    started.flags = (*started.flags, "--port", str(started.address[1]))
    return started


@pytest.fixture
def log(server: ServerProcess, follow: Callable[..., Log]) -> Log:
    return follow(server.url)


@pytest.fixture
def bench(spark, log: Log, tmp_path: Path) -> Workbench:
    """What a job is called with, for this test's server."""
    return Workbench(Endpoint(log.url), tmp_path / "checkpoint", master=MASTER)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Commands]:
    """`mainstem pipeline ...` as a process."""
    with closing(Commands(tmp_path)) as commands:
        yield commands
