"""The fixtures that several folders of tests share. tests/conftest.py loads them once, as a plugin."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest

from mainstem import limits
from mainstem.server.app import wall_clock_us
from mainstem.server.settings import Settings
from mainstem.testing import forks
from mainstem.testing.clock import FakeClock
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from mainstem.testing.server_thread import ServerThread
from tests.support.command_line import Shell
from tests.support.log_client import LogClient
from tests.support.sync_peers import fresh
from tests.support.webhook_receivers import TAKEN, Call, Receiver, Reply

HASTE_S = 0.02
SEED = "MAINSTEM_TEST_SEED"

names = count()


class HasUrl(Protocol):
    @property
    def url(self) -> str: ...


ConnectTo = Callable[[HasUrl], httpx2.Client]
StartThread = Callable[..., ServerThread]
OpenLog = Callable[..., LogClient]
Receive = Callable[..., Receiver]


# Servers in a thread of this process, whose limits and clock tests can set


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """The server of all tests that need no settings of their own."""
    data = tmp_path_factory.mktemp("server") / "data"
    # A long-poll must end within the test, so that a failure shows its reply and not a time-out of the client.
    with ServerThread(Settings(port=0, data=str(data), allow_local_webhooks=True, long_poll_ms=10_000)) as server:
        yield server


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerThread, FakeClock]]:
    """A server whose clock the tests of one module advance, and whose background work runs all the time."""
    clock = FakeClock()
    data = tmp_path_factory.mktemp("clocked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "REAP_EVERY_S", HASTE_S)
        with ServerThread(Settings(port=0, data=str(data), long_poll_ms=100), clock) as server:
            yield server, clock


@pytest.fixture
def start_thread(tmp_path: Path) -> Iterator[StartThread]:
    """Start servers with the test's own settings. The same `data` gives the same server, started again."""
    started: list[ServerThread] = []

    def start(*, clock_us: Callable[[], int] = wall_clock_us, **settings: Any) -> ServerThread:
        server = ServerThread(
            Settings(**{"port": 0, "data": str(tmp_path / f"data{len(started)}"), **settings}), clock_us
        )
        started.append(server)
        server.start()
        return server

    yield start
    for server in reversed(started):
        server.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let background work run many times per second; what it does stays the same."""
    monkeypatch.setattr(limits, "REAP_EVERY_S", HASTE_S)
    monkeypatch.setattr(limits, "LEASE_CHECK_S", HASTE_S)


# Servers in their own process


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[None]:
    """Fork every `ServerProcess`, unless a test asks for a real start with `start_process`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerProcess, "launch", staticmethod(forks.start_server))
        yield


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that only add data to it, each under its own names."""
    with ServerProcess(tmp_path_factory.mktemp("shared") / "data") as server:
        yield server


@pytest.fixture
def start_on_fixed_port(start_server: StartServer, tmp_path: Path) -> StartServer:
    """Start servers that keep their address when they are started again; each has its own data."""
    numbers = count()

    def start(*flags: str) -> ServerProcess:
        server = start_server(*flags, data=tmp_path / f"fixed{next(numbers)}")
        server.flags = (*flags, "--port", str(server.address[1]))
        return server

    return start


# Clients


@pytest.fixture
def client(server: ServerThread, connect_to: ConnectTo) -> httpx2.Client:
    return connect_to(server)


@pytest.fixture
def connect_to() -> Iterator[ConnectTo]:
    """Connect clients to servers in a thread or in their own process."""
    with ExitStack() as stack:
        # Below the test's own time-out, so that a hanging server fails the request that hangs. Loading certificates
        # for every client would take longer than many a test, and none of them uses TLS.
        yield lambda server: stack.enter_context(
            httpx2.Client(base_url=server.url, timeout=60, trust_env=False, verify=False)
        )


@pytest.fixture
def open_log() -> Iterator[OpenLog]:
    """Open clients that fill the logs of servers and read them."""
    with ExitStack() as stack:
        yield lambda url, token=None: stack.enter_context(closing(LogClient(url, token)))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Run `mainstem ...` as a process."""
    with closing(Shell(tmp_path)) as shell:
        yield shell


@pytest.fixture
def receive() -> Iterator[Receive]:
    """Start webhook receivers."""
    with ExitStack() as stack:

        def start(answer: Callable[[Call], Reply] = lambda call: TAKEN) -> Receiver:
            return stack.enter_context(closing(Receiver(answer)))

        yield start


# Names that no other test uses


@pytest.fixture
def path() -> str:
    """The path of a stream, below the stream root."""
    return f"test/{next(names)}"


@pytest.fixture
def room() -> str:
    """The name of a partition."""
    return fresh("room")


@pytest.fixture
def other_room() -> str:
    return fresh("other-room")


# Randomness


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))


@pytest.fixture
def chance(request: pytest.FixtureRequest, seed: int) -> random.Random:
    """A random generator with a new seed in every run; a failure prints the seed, with which a run can be repeated."""
    print(f"{SEED}={seed} makes the same choices again")
    return random.Random(f"{seed} {request.path.name} {request.node.name}")
