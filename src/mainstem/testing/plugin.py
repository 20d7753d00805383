"""A pytest plugin: it runs `async def` tests without another plugin, and provides servers that stop with their test.

Enable it with `pytest_plugins = ["mainstem.testing.plugin"]` in the top-level conftest.py.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mainstem.testing.disk import FaultyDisk
from mainstem.testing.loops import run
from mainstem.testing.postgres import PostgresMissing, PostgresProcess
from mainstem.testing.server import ServerProcess

pytest.register_assert_rewrite("mainstem.testing.store_contract")

StartServer = Callable[..., ServerProcess]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}))
    return True


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """A function that starts servers, by default on this test's own data directory. They end with the test."""
    servers: list[ServerProcess] = []

    def start(*flags: str, data: Path | None = None, environment: Mapping[str, str] | None = None) -> ServerProcess:
        server = ServerProcess(data or tmp_path / "data", *flags, environment=environment)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    """A disk that fails on demand."""
    with FaultyDisk() as disk:
        yield disk


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresProcess]:
    """A real PostgreSQL server, shared by all tests of a session."""
    try:
        process = PostgresProcess()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture
def postgres_url(postgres: PostgresProcess) -> Iterator[str]:
    """The URL of a new, empty database for this test."""
    with postgres.database() as name:
        yield postgres.url(name)
