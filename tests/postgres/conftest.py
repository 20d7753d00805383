"""Fixtures: nodes as real processes on one database, and clients for them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from mainstem.testing.server import ServerProcess

StartNodes = Callable[..., list[ServerProcess]]


@pytest.fixture
def start_nodes(postgres_url: str, tmp_path: Path) -> Iterator[StartNodes]:
    """A function that starts servers on the database of this test. They end with the test."""
    nodes: list[ServerProcess] = []

    def start(number: int = 2, *flags: str, url: str = postgres_url) -> list[ServerProcess]:
        started = [ServerProcess(tmp_path / "unused", "--store", url, *flags) for _ in range(number)]
        nodes.extend(started)
        with ThreadPoolExecutor(number) as pool:
            list(pool.map(ServerProcess.start, started))
        return started

    yield start
    for node in nodes:
        node.close()


@pytest.fixture
def browse() -> Iterator[Callable[[ServerProcess], httpx2.Client]]:
    """A function that opens an HTTP client for a node."""
    clients: list[httpx2.Client] = []

    def open_client(node: ServerProcess) -> httpx2.Client:
        clients.append(httpx2.Client(base_url=node.url, timeout=30, trust_env=False))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()
