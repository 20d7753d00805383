import httpx2
import pytest

from tests.support.subscribers import Subscriber, WakeStream


@pytest.fixture
def wakes(client: httpx2.Client, path: str) -> WakeStream:
    return WakeStream(client, path + "/wakes")


@pytest.fixture
def subscriber(client: httpx2.Client, path: str) -> Subscriber:
    """A subscription on the shared server that is not created yet, with an id that no other test uses."""
    return Subscriber(client, path.replace("/", "-"))
