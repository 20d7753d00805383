"""A client of the sync protocol for tests that have no event loop of their own, such as those with a browser."""

import json
from contextlib import ExitStack
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.sync_peers import Json, envelope, fresh


class BlockingPeer:
    """A client, connected within a `with` block; `claims` are further fields of its `connect`, such as `token`."""

    def __init__(self, url: str, client_id: str, **claims: str) -> None:
        self._url = url.replace("http", "ws", 1) + "/v1/sync"
        self._connect = {"client_id": client_id, **claims}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._socket = stack.enter_context(connect(self._url, proxy=None))
            self.ask("connect", self._connect)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, type_: str, payload: Json) -> Json:
        """Send a message, and return the payload of the next one."""
        self._socket.send(json.dumps(envelope(type_, payload)))
        return self.next()

    def next(self) -> Json:
        payload: Json = json.loads(self._socket.recv(timeout=30))["payload"]
        return payload

    def commit(self, partitions: list[str], *events: Json) -> list[int]:
        """Submit events, and return their committed ids."""
        drafts = [{"id": fresh(), "partitions": partitions, "event": event} for event in events]
        return [result["committed_id"] for result in self.ask("submit_events", {"events": drafts})["results"]]

    def subscribe(self, *partitions: str) -> None:
        names: list[Any] = [*partitions]
        self.ask("sync", {"partitions": names, "since_committed_id": 0, "subscription_partitions": names})

    def close_code(self) -> int | None:
        """Read until the server closes the connection, and return its code."""
        try:
            while True:
                self._socket.recv(timeout=30)
        except ConnectionClosed as closed:
            return None if closed.rcvd is None else closed.rcvd.code
