import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest

from tests.streams_client.test_restarts import free_port
from tests.support.waits import eventually


@dataclass
class ChatApp:
    url: str
    process: "subprocess.Popen[bytes]"


@pytest.fixture(scope="module")
def chat_app() -> Iterator[ChatApp]:
    """The chat app in a process of its own."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.ai.chat_app", str(port)])
    url = f"http://127.0.0.1:{port}"

    def look() -> bool:
        try:
            return httpx2.get(url + "/log/healthz").status_code == 200
        except httpx2.HTTPError:
            return False

    try:
        eventually(look, "the chat app serves requests", unless=process.poll)
        yield ChatApp(url, process)
    finally:
        process.terminate()
        process.wait()
