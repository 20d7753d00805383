"""Servers in a thread of this process, whose limits and clock can be set, and HTTP clients of servers."""

from collections.abc import Callable, Iterator
from itertools import count

import httpx2
import pytest

from mainstem import limits
from mainstem.server.app import wall_clock_us
from mainstem.server.settings import Settings
from mainstem.testing.clock import FakeClock
from mainstem.testing.server_thread import ServerThread

__all__ = ["client", "clocked", "connect_to", "hasty", "path", "server", "start_thread"]

HASTE_S = 0.02

names = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """The server of all tests that need no setting of their own."""
    data = tmp_path_factory.mktemp("server") / "data"
    # A long-poll that ends within a test tells more than one that the test has to give up on.
    with ServerThread(Settings(port=0, data=str(data), allow_local_webhooks=True, long_poll_ms=10_000)) as server:
        yield server


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerThread, FakeClock]]:
    """A server whose clock the tests of one module move, and whose background work is always at it."""
    clock = FakeClock()
    data = tmp_path_factory.mktemp("clocked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "REAP_EVERY_S", HASTE_S)
        with ServerThread(Settings(port=0, data=str(data), long_poll_ms=100), clock) as server:
            yield server, clock


@pytest.fixture
def client(server: ServerThread, connect_to: Callable[..., httpx2.Client]) -> httpx2.Client:
    return connect_to(server)


@pytest.fixture
def start_thread(tmp_path) -> Iterator[Callable[..., ServerThread]]:
    """Starts servers with settings of the test's own. The same `data` is the same server, started again."""
    started: list[ServerThread] = []

    def start(*, clock_us: Callable[[], int] = wall_clock_us, **settings: object) -> ServerThread:
        settings = {"port": 0, "data": str(tmp_path / f"data{len(started)}"), **settings}
        server = ServerThread(Settings(**settings), clock_us)
        started.append(server)
        server.start()
        return server

    yield start
    for server in reversed(started):
        server.stop()


@pytest.fixture
def connect_to() -> Iterator[Callable[..., httpx2.Client]]:
    """Clients of servers in a thread or in a process of their own."""
    clients: list[httpx2.Client] = []

    def connect(server) -> httpx2.Client:
        # Below the test's own time-out, so that a hanging server fails with the request that hangs. Loading
        # certificates for every client would take longer than many a test, and no TLS is spoken here.
        clients.append(httpx2.Client(base_url=server.url, timeout=60, trust_env=False, verify=False))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def hasty(monkeypatch) -> None:
    """Background work comes round many times a second; what it does stays the same."""
    monkeypatch.setattr(limits, "REAP_EVERY_S", HASTE_S)
    monkeypatch.setattr(limits, "LEASE_CHECK_S", HASTE_S)


@pytest.fixture
def path() -> str:
    """The path, below the stream root, of a stream that no other test uses."""
    return f"test/{next(names)}"
