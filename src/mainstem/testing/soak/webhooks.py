"""A subscription whose webhook is called for every stream of an epoch, and sometimes fails."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.violations import Violation
from mainstem.testing.torture.connections import Connection
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import Scope

SUBSCRIPTION = "/v1/stream/__ds/subscriptions/soak"
PATTERN = "*kept/**"
FAILURES = 0.1
SETTLE_TRIES_MAX = 60
"""How often, once a second, to look for the last wakes of an epoch: those that failed are sent again."""


class Link(msgspec.Struct):
    path: str
    acked_offset: str


class Subscription(msgspec.Struct):
    streams: list[Link]


class Receiver:
    """Answers webhooks on a port of its own until it is closed."""

    def __init__(self, seed: int) -> None:
        self.calls = 0
        self._chance = Random(f"{seed} webhooks")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                receiver.calls += 1
                failed = receiver._chance.random() < FAILURES
                body = b"" if failed else b'{"done":true}'
                self.send_response(500 if failed else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True  # the server was restarted

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def subscribe(self, connection: Connection) -> None:
        url = f"http://127.0.0.1:{self._server.server_port}/"
        request = {"type": "webhook", "pattern": PATTERN, "webhook": {"url": url}, "lease_ttl_ms": 2_000}
        reply = await connection.request(
            "PUT", SUBSCRIPTION, {"Content-Type": "application/json"}, msgspec.json.encode(request)
        )
        if reply.refusal is not None:
            raise ValueError(f"the subscription was refused: {reply.body!r}")


async def find_missed_wakes(node: Node, scope: Scope) -> list[Violation]:
    """Wait until every kept stream of an epoch has been acknowledged, and return what has not."""
    assert node.address is not None
    connection = await Connection.open(node.address)
    try:
        for _ in range(SETTLE_TRIES_MAX):
            missed = await _find_unacknowledged(connection, scope)
            if not missed:
                return []
            await asyncio.sleep(1)
        return [Violation("missed wake", f"{path} has data that its subscription was not woken for") for path in missed]
    finally:
        connection.close()


async def _find_unacknowledged(connection: Connection, scope: Scope) -> list[str]:
    reply = await connection.request("GET", SUBSCRIPTION)
    links = {link.path: link for link in msgspec.json.decode(reply.body, type=Subscription).streams}
    missed = []
    for path in scope.kept:
        end = (await connection.request("HEAD", f"/v1/stream/{path}")).next_offset
        if end is not None and end.position and (path not in links or Offset.parse(links[path].acked_offset) != end):
            missed.append(path)
    return missed
