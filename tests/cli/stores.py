"""A store with some of everything in it, written by a real server over both protocols."""

import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
from websockets.sync.client import connect

from mainstem.log.store.snapshot import StoreSnapshot
from mainstem.log.store.sqlite import snapshot as sqlite
from mainstem.streams.states import GARBAGE
from mainstem.testing.server import ServerProcess
from tests.support.waits import eventually

OpenSnapshot = Callable[[], AbstractContextManager[StoreSnapshot]]

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


def producer(seq: int) -> dict[str, str]:
    return {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(seq)}


def fill(server: ServerProcess, open_snapshot: OpenSnapshot) -> None:
    """Write streams of every kind (plain, closed, trimmed, forked, deleted, soft-deleted), events and a snapshot."""
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        _fill_streams(client)
        submit(server, [(f"e{n}", ["a", "b"] if n % 2 else ["a"], {"n": n}) for n in range(6)])
        head = client.get("/readyz").json()["head"]
        client.put("/v1/snapshot/a", json={"committed_id": head, "state": {"n": 5}}).raise_for_status()
        # The first event is only in partition a, so the history of a up to there can be pruned.
        client.post("/v1/prune", json={"floors": {"a": head - 5}}).raise_for_status()
        _wait_until_pruned(open_snapshot)


def _fill_streams(client: httpx2.Client) -> None:
    def put(path: str, headers: dict[str, str], content: bytes = b"") -> None:
        client.put(f"/v1/stream/{path}", headers=headers, content=content).raise_for_status()

    def post(path: str, headers: dict[str, str], content: bytes) -> None:
        client.post(f"/v1/stream/{path}", headers=headers, content=content).raise_for_status()

    put("plain", TEXT)
    for number in range(5):
        post("plain", {**TEXT, **producer(number)}, b"line %d\n" % number)
    put("json", JSON, b'[{"n":1},{"n":2}]')
    post("json", {**JSON, "stream-closed": "true"}, b'{"n":3}')
    put("kept", {**TEXT, "stream-retention": "max-messages=2", "stream-ttl": "3600"})
    put("source", TEXT, b"0123456789")
    put("branch", {"stream-forked-from": "/v1/stream/source"}, b"abc")
    put("twig", {"stream-forked-from": "/v1/stream/branch"}, b"def")
    put("gone", TEXT, b"gone")
    client.delete("/v1/stream/gone").raise_for_status()
    client.delete("/v1/stream/branch").raise_for_status()


def submit(server: ServerProcess, events: list[tuple[str, list[str], dict[str, Any]]]) -> None:
    with connect(f"{server.url.replace('http', 'ws', 1)}/v1/sync", proxy=None) as socket:
        _send(socket, "connect", {"client_id": "me", "token": ""})
        drafts = [{"id": id_, "partitions": names, "event": event} for id_, names, event in events]
        results = _send(socket, "submit_events", {"events": drafts})["results"]
        assert {result["status"] for result in results} == {"committed"}


def _send(socket, type_, payload):
    socket.send(json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0"}))
    return json.loads(socket.recv(timeout=30))["payload"]


def _wait_until_pruned(open_snapshot: OpenSnapshot) -> None:
    """Wait: the floor is durable at once, but pruned events and deleted streams are erased in the background."""

    def is_erased() -> bool:
        with open_snapshot() as snapshot:
            events = [b'"e0"' in event.data for batch in snapshot.scan_events() for event in batch]
            return not any(events) and not any(snapshot.scan_states(GARBAGE))

    eventually(is_erased, "what was pruned and deleted is erased")


def make_store(directory: Path) -> Path:
    """Return the file of a filled store whose server was stopped cleanly."""
    store = directory / "mainstem.db"
    with ServerProcess(directory) as server:
        fill(server, lambda: sqlite.open_snapshot(store))
        server.terminate()
    return store


def change_something(client: httpx2.Client, chance: random.Random, number: int) -> None:
    """Send a random request that changes streams."""
    path = f"/v1/stream/s{chance.randrange(6)}"
    other = f"/v1/stream/s{chance.randrange(6)}"
    match chance.randrange(8):
        case 0:
            client.put(path, headers=TEXT | ({"stream-retention": "max-messages=2"} if number % 3 else {}))
        case 1:
            client.put(path, headers={"stream-forked-from": other}, content=b"")
        case 2:
            client.delete(path)
        case 3 if number % 4 == 0:
            client.post(path, headers={"stream-closed": "true"})
        case 4:
            client.post(path, headers=TEXT | producer(0) | {"producer-id": f"p{number}"}, content=b"by a producer")
        case _:
            client.post(path, headers=TEXT, content=b"x" * chance.randrange(1, 50))
