"""A server for all tests that need nothing of their own, servers for the others, and HTTP clients of both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import pytest
from sync_servers import ThreadedServer

from mainstem.server.app import wall_clock_us
from mainstem.server.settings import Settings
from peers import fresh

StartSync = Callable[..., ThreadedServer]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios of the contract hold on every store; the other tests need only one."""
    if "sync_server" in metafunc.fixturenames:
        stores = ["sqlite", "postgres"] if metafunc.module.__name__ == "test_sync_scenarios" else ["sqlite"]
        metafunc.parametrize("sync_server", stores, indirect=True, scope="session")


@pytest.fixture(scope="session")
def sync_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ThreadedServer]:
    with ExitStack() as stack:
        settings = {"data": str(tmp_path_factory.mktemp("sync") / "data")}
        if request.param == "postgres":
            postgres = request.getfixturevalue("postgres")
            settings["store"] = postgres.url(stack.enter_context(postgres.database()))
        yield stack.enter_context(ThreadedServer(Settings(port=0, **settings)))


@pytest.fixture
def start_sync(tmp_path) -> Iterator[StartSync]:
    """Starts servers with settings of the test's own; limits are patched before."""
    started: list[ThreadedServer] = []

    def start(*, clock_us: Callable[[], int] = wall_clock_us, **settings: object) -> ThreadedServer:
        settings = {"port": 0, "data": str(tmp_path / f"data{len(started)}"), **settings}
        server = ThreadedServer(Settings(**settings), clock_us)
        server.__enter__()
        started.append(server)
        return server

    yield start
    for server in reversed(started):
        server.__exit__()


@pytest.fixture
def browse() -> Iterator[Callable[..., httpx2.Client]]:
    """An HTTP client of a server."""
    clients: list[httpx2.Client] = []

    def open_client(server, **options: object) -> httpx2.Client:
        clients.append(httpx2.Client(base_url=server.url, timeout=30, trust_env=False, **options))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def room() -> str:
    """A partition that no other test uses."""
    return fresh("room")


@pytest.fixture
def other_room() -> str:
    return fresh("other-room")
