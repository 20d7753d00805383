"""Streams for states, on the shared server, and the packages of the protocol for Node.js."""

import json
import os
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mainstem.client import Streams
from mainstem.testing.server import ServerProcess
from tests.support.node_packages import install

HERE = Path(__file__).parent
NODE_S_MAX = 60

RunNode = Callable[..., Any]

names = count()


@pytest.fixture
def path(shared_server: ServerProcess) -> str:
    """The path of a new, empty JSON stream."""
    path = f"state/{next(names)}"
    with Streams(shared_server.url) as streams:
        streams.create(path, "application/json")
    return path


@pytest.fixture
def run_node(shared_server: ServerProcess, path: str) -> RunNode:
    """Run a part of state_package.mjs against the test's stream, and return what it prints."""
    node = install(HERE)

    def run(part: str, *arguments: str) -> Any:
        environment = os.environ | {"STATE_URL": f"{shared_server.url}/v1/stream/{path}"}
        command = [*node, str(HERE / "state_package.mjs"), part, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=NODE_S_MAX, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
