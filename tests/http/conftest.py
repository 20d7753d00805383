"""A server for all tests that need no setting of their own, and streams that no other test uses."""

from collections.abc import Iterator
from itertools import count

import httpx2
import pytest

from mainstem.server.settings import Settings
from mainstem.testing.server_thread import ServerThread
from tests.support.server_threads import client, connect_to, start_thread

__all__ = ["client", "connect_to", "start_thread"]

names = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    data = tmp_path_factory.mktemp("server") / "data"
    with ServerThread(Settings(port=0, data=str(data))) as server:
        yield server


@pytest.fixture
def path() -> str:
    """The URL path of a stream that no other test uses."""
    return f"/v1/stream/test/{next(names)}"


@pytest.fixture
def text_stream(client: httpx2.Client, path: str) -> str:
    assert client.put(path, headers={"content-type": "text/plain"}).status_code == 201
    return path


@pytest.fixture
def json_stream(client: httpx2.Client, path: str) -> str:
    assert client.put(path, headers={"content-type": "application/json"}).status_code == 201
    return path
