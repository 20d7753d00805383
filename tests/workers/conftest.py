import pytest

from mainstem.testing.server_thread import ServerThread
from tests.support.fixtures import StartThread


@pytest.fixture
def own_server(start_thread: StartThread, hasty: None) -> ServerThread:
    """A server of this test, whose background work runs many times per second."""
    return start_thread(store="memory", long_poll_ms=2000, allow_local_webhooks=True)
