"""A server for the tests that need nothing of their own, servers that can be killed, and names for each test."""

import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from mainstem.client.offline import MemoryClientStore, OfflineClient
from mainstem.testing.server import ServerProcess

numbers = count(1)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("shared") / "data") as server:
        yield server


@pytest.fixture
def steady_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers that keep their port when they are started again."""
    started: list[ServerProcess] = []

    def start(*flags: str) -> ServerProcess:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = ServerProcess(tmp_path / f"data{len(started)}", "--port", str(port), *flags)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.close()


@pytest.fixture
def room() -> str:
    return f"room-{next(numbers)}"


@pytest.fixture
def make_client(shared_server: ServerProcess, room: str) -> Callable[..., OfflineClient]:
    def make(client_id: str = "ada", **options: object) -> OfflineClient:
        known = {"url": shared_server.url, "store": MemoryClientStore(), "partitions": [room], **options}
        return OfflineClient(known.pop("url"), client_id=f"{client_id}-{room}", **known)

    return make
