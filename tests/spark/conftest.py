import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainstem.testing.server import ServerProcess

from .logs import Log

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Py4J leaves the sockets of ended threads to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """One local Spark for all tests, whose tasks may fail three times."""
    from mainstem.pipeline import session

    made = session("tests", "local[2,4]", work=tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()
    end_java()


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


def end_java() -> None:
    """End the Java process and what is left of the connections to it, so that no later test meets them."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del gateway
        gc.collect()


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


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in the home folder of whoever runs the tests."""
    if "XDG_CACHE_HOME" not in os.environ:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
