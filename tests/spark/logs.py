"""What the tests put into a server and find in it, without Spark."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import httpx2

JSON = {"Content-Type": "application/json"}
WAIT_S = 60.0


class Log:
    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.Client(base_url=url, trust_env=False, timeout=30, headers=headers)

    def close(self) -> None:
        self.http.close()

    def fill(self, stream: str, messages: list, batch: int = 1_000) -> None:
        self.http.put(f"/v1/stream/{stream}", headers=JSON).raise_for_status()
        for first in range(0, len(messages), batch):
            body = json.dumps(messages[first : first + batch])
            self.http.post(f"/v1/stream/{stream}", headers=JSON, content=body).raise_for_status()

    def read(self, stream: str) -> list:
        """Every message of a stream, in order."""
        found, offset = [], "-1"
        while True:
            reply = self.http.get(f"/v1/stream/{stream}", params={"offset": offset})
            if reply.status_code == 404:
                return []
            reply.raise_for_status()
            found += reply.json()
            offset = reply.headers["stream-next-offset"]
            if reply.headers.get("stream-up-to-date") == "true":
                return found

    def head(self) -> int:
        return self.http.get("/v1/log/head").raise_for_status().json()["head"]

    def rows(self, **query: object) -> list[dict]:
        """Rows of the log, one page of them."""
        reply = self.http.get("/v1/log", params=query, headers={"Accept": "application/x-ndjson"})
        return [json.loads(line) for line in reply.raise_for_status().text.splitlines()]


def until(holds: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came to that"
        time.sleep(0.01)


def make_token(secret: object, *flags: str) -> str:
    command = [sys.executable, "-c", "from mainstem.cli import main; main()", "token", "--secret-file", str(secret)]
    return subprocess.run([*command, *flags], capture_output=True, text=True, check=True).stdout.strip()


def make_secret(path: object) -> None:
    command = [sys.executable, "-c", "from mainstem.cli import main; main()", "token", "--new-secret", str(path)]
    subprocess.run(command, capture_output=True, check=True)
