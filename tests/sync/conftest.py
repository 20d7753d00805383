"""A server for all tests that need nothing of their own, and partitions that no other test uses."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mainstem.server.settings import Settings
from mainstem.testing.server_thread import ServerThread
from tests.support.server_threads import connect_to, start_thread
from tests.sync.peers import fresh

__all__ = ["connect_to", "start_thread"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios of the contract hold on every store; the other tests need only one."""
    if "sync_server" in metafunc.fixturenames:
        stores = ["sqlite", "postgres"] if metafunc.module.__name__ == "test_sync_scenarios" else ["sqlite"]
        metafunc.parametrize("sync_server", stores, indirect=True, scope="session")


@pytest.fixture(scope="session")
def sync_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    with ExitStack() as stack:
        settings = {"data": str(tmp_path_factory.mktemp("sync") / "data")}
        if request.param == "postgres":
            postgres = request.getfixturevalue("postgres")
            settings["store"] = postgres.url(stack.enter_context(postgres.database()))
        yield stack.enter_context(ServerThread(Settings(port=0, **settings)))


@pytest.fixture
def room() -> str:
    """A partition that no other test uses."""
    return fresh("room")


@pytest.fixture
def other_room() -> str:
    return fresh("other-room")
