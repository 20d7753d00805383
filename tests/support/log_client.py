"""A client that fills a server with messages of both protocols, and reads its log without Spark."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tests.support.waits import eventually

JSON = "application/json"
DRAFTS_MAX = 50


class LogClient:
    """Writes to one server and reads its log."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.token = token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.Client(base_url=url, trust_env=False, timeout=30, headers=headers)

    def close(self) -> None:
        self.http.close()

    def create(self, stream: str, content_type: str = JSON, **headers: str) -> None:
        self.http.put(f"/v1/stream/{stream}", headers={"Content-Type": content_type, **headers}).raise_for_status()

    def append(self, stream: str, messages: Sequence[object], *, at_once: int = 1_000) -> None:
        """Append JSON messages; every `at_once` of them share a committed id."""
        self.create(stream)
        for first in range(0, len(messages), at_once):
            body = json.dumps(list(messages[first : first + at_once]))
            headers = {"Content-Type": JSON}
            self.http.post(f"/v1/stream/{stream}", headers=headers, content=body).raise_for_status()

    def append_bytes(self, stream: str, body: bytes, content_type: str = "application/octet-stream") -> None:
        self.create(stream, content_type)
        headers = {"Content-Type": content_type}
        self.http.post(f"/v1/stream/{stream}", headers=headers, content=body).raise_for_status()

    def submit(
        self, partitions: str | Sequence[str], events: Sequence[dict[str, Any]], *, client: str = "tests"
    ) -> None:
        """Submit events with the sync protocol. Each has the id `client-partition-number`, with numbers from 0."""
        names = [partitions] if isinstance(partitions, str) else list(partitions)
        drafts = [
            {"id": f"{client}-{names[0]}-{number}", "partitions": names, "event": event}
            for number, event in enumerate(events)
        ]
        with connect(self.url.replace("http", "ws", 1) + "/v1/sync", proxy=None) as socket:
            hello = {"client_id": client} | ({"token": self.token} if self.token else {})
            _say(socket, "connect", hello)
            for first in range(0, len(drafts), DRAFTS_MAX):
                sent = _say(socket, "submit_events", {"events": drafts[first : first + DRAFTS_MAX]})
                assert {result["status"] for result in sent["results"]} == {"committed"}, sent

    def fill(self, *, streams: int = 3, messages: int = 100, partitions: int = 2, events: int = 50) -> int:
        """Fill streams with JSON messages `{"n": ...}` and partitions with events; return how many rows they make."""
        for number in range(streams):
            self.append(f"orders/{number}", [{"n": n, "shop": number} for n in range(messages)], at_once=7)
        for number in range(partitions):
            self.submit(f"room-{number}", [{"n": n, "text": f"grüß {n}"} for n in range(events)])
        return streams * messages + partitions * events

    def read(self, stream: str) -> list[Any]:
        """Return every JSON message of a stream, in order; nothing if there is no such stream."""
        found: list[Any] = []
        offset = "-1"
        while True:
            reply = self.http.get(f"/v1/stream/{stream}", params={"offset": offset})
            if reply.status_code == 404:
                return []
            found += reply.raise_for_status().json()
            offset = reply.headers["stream-next-offset"]
            if reply.headers.get("stream-up-to-date") == "true":
                return found

    def head(self, **query: Any) -> dict[str, Any]:
        head: dict[str, Any] = self.http.get("/v1/log/head", params=query).raise_for_status().json()
        return head

    def head_id(self) -> int:
        """The newest committed id."""
        return int(self.head()["head"])

    def rows(self, **query: Any) -> list[dict[str, Any]]:
        """Return every row of the log, in order, as the NDJSON endpoint sends it."""
        found: list[dict[str, Any]] = []
        after = query.pop("after", 0)
        while True:
            reply = self.http.get("/v1/log", params={**query, "after": after}).raise_for_status()
            found += [json.loads(line) for line in reply.text.splitlines()]
            after = int(reply.headers["log-next"])
            if reply.headers.get("log-up-to-date") == "true":
                return found

    def places(self, **query: Any) -> list[tuple[int, int]]:
        """Return what identifies each row: its committed id and its position."""
        return [(row["committed_id"], row["position"]) for row in self.rows(**query)]

    def prune(self, partition: str, floor: int) -> None:
        """Raise a partition's floor, and wait until the events up to it are erased."""
        self.http.post("/v1/prune", json={"floors": {partition: floor}}).raise_for_status()
        eventually(lambda: self.head()["pruned"] >= floor)


def _say(socket: Connection, type_: str, payload: dict[str, Any]) -> dict[str, Any]:
    socket.send(json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0"}))
    while True:
        message = json.loads(socket.recv(timeout=30))
        if message["type"] in ("connected", "submit_events_result", "error"):
            assert message["type"] != "error", message
            answer: dict[str, Any] = message["payload"]
            return answer
