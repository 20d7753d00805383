"""The official JavaScript client, npm `@durable-streams/client`, unchanged, against a real server."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_packages import assert_pinned, install

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def node() -> list[str]:
    """The command that runs node, after the packages are installed."""
    return install(HERE)


def run(node: list[str], program: str, url: str, *arguments: str) -> dict[str, Any]:
    """Run a program of this folder, and return the results that it prints."""
    command = [*node, str(HERE / program), *arguments]
    environment = os.environ | {"MAINSTEM_URL": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_the_javascript_client_works_unchanged(start_server, node):
    server = start_server()
    seen = run(node, "official_client.mjs", server.url)
    assert seen.pop("fenced") >= 1  # the producer that was replaced gets an error
    assert seen == {
        "text": "grüße zwei",
        "resumed": "",
        "head": {"exists": True, "contentType": "text/plain", "offset": "0000000000000000_0000000000000012"},
        "missing": {"exists": False},
        "bytes": [0, 255, 13, 10],
        "produced": list(range(201)),
        "errors": [],
        "after": 201,
        "sse": ["before", "during", "after"],
        "long-poll": ["before", "during", "after"],
        "closed-sse": [1, 2],
        "closed-long-poll": [1, 2],
        "refused-sse": 409,
        "refused-long-poll": 409,
        "last": ["one", "two"],
        "lastClosed": True,
        "deleted": {"exists": False},
    }
    assert "Traceback" not in server.stderr


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_large_appends_that_the_client_gathers_are_all_stored(start_server, node):
    """The client sends everything that waits as one body, however large that is: here up to 29 MB."""
    server = start_server()
    seen = run(node, "concurrent_appends.mjs", server.url)
    assert seen["refused"] == []
    assert seen["length"] == 30_000_000
    assert sorted(seen["runs"]) == sorted(seen["messages"]) == list(range(30))
    assert "Traceback" not in server.stderr


def test_the_lock_file_of_the_client_pins_packages_and_no_registry():
    assert_pinned(HERE)
