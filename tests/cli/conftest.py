"""Fixtures of the command-line tests: a filled store, and the command with a server of its own."""

import shutil
import uuid
from pathlib import Path

import pytest

from mainstem.testing.server import ServerProcess
from tests.cli.stores import make_store
from tests.support.command_line import Shell


@pytest.fixture
def server(shared_server: ServerProcess) -> ServerProcess:
    return shared_server


@pytest.fixture
def mainstem(shell: Shell, server: ServerProcess) -> Shell:
    """The command, with the shared server as its server."""
    return shell.use(server.url)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A stream or partition of this test only."""
    return f"{request.node.name}/{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("filled") / "data")


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A copy of the filled store, to be damaged."""
    directory = tmp_path / "store"
    directory.mkdir()
    return Path(shutil.copy(filled, directory / "mainstem.db"))
