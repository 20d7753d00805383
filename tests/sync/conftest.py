"""A server shared by all tests that need no special configuration."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mainstem.server.settings import Settings
from mainstem.testing.server_thread import ServerThread


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the scenarios of the contract on every store; the other tests need only one."""
    if "sync_server" in metafunc.fixturenames:
        stores = ["sqlite", "postgres"] if metafunc.module.__name__ == "test_sync_scenarios" else ["sqlite"]
        metafunc.parametrize("sync_server", stores, indirect=True, scope="session")


@pytest.fixture(scope="session")
def sync_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    with ExitStack() as stack:
        store = "sqlite"
        if request.param == "postgres":
            postgres = request.getfixturevalue("postgres")
            store = postgres.url(stack.enter_context(postgres.database()))
        data = str(tmp_path_factory.mktemp("sync") / "data")
        yield stack.enter_context(ServerThread(Settings(port=0, data=data, store=store)))
