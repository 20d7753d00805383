"""The npm packages with which React apps read answers, unchanged, in Node.js."""

import json
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.support.node_packages import install

FOLDER = Path(__file__).parent
PACKAGES = FOLDER.parent / "official_clients"


@pytest.fixture(scope="module")
def node() -> list[str]:
    return install(PACKAGES)


def run(node, url, program):
    httpx2.post(url + "/hold")
    done = subprocess.run(
        [*node, str(FOLDER / "transports.mjs"), url, program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_use_chat_resumes_joins_and_stops(chat_app, node):
    assert run(node, chat_app.url, "aisdk") == {
        "nothing": None,
        "text": "Hello, world",
        "message": "Hello, world",
        "left": "Hello",
        "resumed": "Hello, world",
        "second": "Hello, world",
        "stopped": "abort",
        "failed": "The run failed.",
        "refused": "refused",
    }


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_a_tanstack_session_follows_and_restores(chat_app, node):
    seen = run(node, chat_app.url, "tanstack")
    assert seen["types"] == ["MESSAGES_SNAPSHOT", "RUN_STARTED", "RUN_FINISHED"]
    assert seen["snapshot"] == [["user", "wait"], ["assistant", "Hello, world"]]
    assert seen["materialised"] == ["user", "assistant"]
