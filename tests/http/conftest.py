"""Fixtures with URL paths instead of stream paths, and with existing streams."""

import httpx2
import pytest

from tests.support.fixtures import names


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
