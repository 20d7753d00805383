"""Clients of the shared server."""

from collections.abc import Callable
from typing import Any

import pytest

from mainstem.client.offline import MemoryClientStore, OfflineClient
from mainstem.testing.server import ServerProcess


@pytest.fixture
def make_client(shared_server: ServerProcess, room: str) -> Callable[..., OfflineClient]:
    def make(client_id: str = "ada", **options: Any) -> OfflineClient:
        known = {"url": shared_server.url, "store": MemoryClientStore(), "partitions": [room], **options}
        return OfflineClient(known.pop("url"), client_id=f"{client_id}-{room}", **known)

    return make
