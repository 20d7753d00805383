import asyncio
from random import Random

import pytest

from mainstem.server.edge.server import EdgeServer
from mainstem.testing.simulation.loop import VirtualClock, VirtualLoop
from mainstem.testing.simulation.network import ConnectionLost
from mainstem.testing.simulation.wires import WireNetwork


@pytest.fixture
def loop():
    loop = VirtualLoop(VirtualClock(), Random(1))
    yield loop
    loop.close()


async def app(scope, receive, send):
    """Reply with the body of a request, and with each message of a WebSocket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message["bytes"].decode()})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def run(loop, use):
    """Run a client of a server that listens in memory."""

    async def serve():
        edge = EdgeServer(app)
        await edge.start(None)  # type: ignore[arg-type]
        await use(WireNetwork(app, loop, Random(1), 0.0, lambda message, error: None))
        await edge.stop()

    loop.run_until_complete(serve())


def test_requests_pass_through_the_edge(loop):
    async def use(network):
        for size in (0, 10, 100_000):
            response = await network.request("POST", "/", {}, bytes(size))
            assert (response.status, response.body) == (200, bytes(size))

    run(loop, use)


def test_websockets_pass_through_the_edge(loop):
    async def use(network):
        async with network.socket("/") as connection:
            for text in ("a", "b" * 1_000, "c" * 100_000):
                connection.send({"type": "websocket.receive", "text": text})
                assert (await connection.receive())["text"] == text

    run(loop, use)


def test_a_server_that_has_stopped_accepts_no_connections(loop):
    async def use(network):
        loop.refuse()
        with pytest.raises(ConnectionLost):
            await network.request("GET", "/")
        await asyncio.sleep(0)

    run(loop, use)
