"""One Spark for all tests of the jobs, a server for each of them, and the jobs themselves: called, or as processes."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mainstem.pipeline.running import Workbench
from mainstem.pipeline.wire import Endpoint
from mainstem.testing.server import ServerProcess

from .commands import Commands
from .filled import Log

MASTER = "local[2]"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """One local Spark. A `Workbench` of the same process gets this very session."""
    from mainstem.pipeline import session

    made = session("tests", MASTER, work=tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()


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


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in the home folder of whoever runs the tests."""
    if "XDG_CACHE_HOME" not in os.environ:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
