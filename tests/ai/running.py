"""The chat app in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from tests.streams_client.test_restarts import free_port
from tests.support.waits import eventually


@dataclass
class ChatApp:
    url: str

    def hold(self) -> None:
        """Let answers to messages with "wait" stop in the middle."""
        httpx2.post(self.url + "/hold").raise_for_status()

    def release(self) -> None:
        """Let them continue."""
        httpx2.post(self.url + "/release").raise_for_status()


@contextmanager
def running_chat_app(*arguments: str) -> Iterator[ChatApp]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.ai.chat_app", str(port), *arguments])
    app = ChatApp(f"http://127.0.0.1:{port}")

    def look() -> bool:
        try:
            return httpx2.get(app.url + "/log/healthz").status_code == 200
        except httpx2.HTTPError:
            return False

    try:
        eventually(look, "the chat app serves requests", unless=process.poll)
        yield app
    finally:
        process.terminate()
        process.wait()
