from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainstem.testing.server import ServerProcess
from tests.spark.logs import Log


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A server for tests that only add to it, each under names of its own."""
    with ServerProcess(tmp_path_factory.mktemp("shared") / "data") as server:
        log = Log(server.url)
        yield log
        log.close()


@pytest.fixture
def open_log() -> Iterator[Callable[..., Log]]:
    logs: list[Log] = []

    def open_(url: str, token: str | None = None) -> Log:
        logs.append(Log(url, token))
        return logs[-1]

    yield open_
    for log in logs:
        log.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


@pytest.fixture
def start_fixed(tmp_path: Path, start_server):
    """A server that comes back at the same address."""

    def start(*flags: str) -> ServerProcess:
        server = start_server(*flags)
        server.flags = (*flags, "--port", str(server.address[1]))
        return server

    return start
