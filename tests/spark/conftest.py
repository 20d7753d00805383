import pytest

from mainstem.testing.server import ServerProcess
from tests.support.fixtures import OpenLog
from tests.support.log_client import LogClient


@pytest.fixture
def shared(shared_server: ServerProcess, open_log: OpenLog) -> LogClient:
    """A server for tests that only append to it, each under its own names."""
    return open_log(shared_server.url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
