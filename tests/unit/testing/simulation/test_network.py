import asyncio
from random import Random

import pytest

from mainstem.testing.simulation.loop import VirtualClock, VirtualLoop
from mainstem.testing.simulation.network import ConnectionLost, Network


@pytest.fixture
def loop():
    loop = VirtualLoop(VirtualClock(), Random(1))
    yield loop
    loop.close()


def make_network(app, loop, errors=None, cuts=0.0):
    note = (lambda message, error: None) if errors is None else (lambda message, error: errors.append(error))
    return Network(app, loop, Random(1), cuts, note)


async def echo(scope, receive, send):
    """Reply with the body, in two pieces."""
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-path", scope["path"].encode())]})
    await send({"type": "http.response.body", "body": body[:3], "more_body": True})
    await send({"type": "http.response.body", "body": body[3:]})


def test_a_request_gets_its_response_after_a_while(loop):
    response = loop.run_until_complete(make_network(echo, loop).request("POST", "/a?b=c", {}, b"hello"))
    assert response == (201, {"x-path": "/a"}, b"hello")
    assert loop.time() > 0


def test_messages_keep_their_order(loop):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message["text"]})

    async def run():
        async with make_network(app, loop).socket("/") as connection:
            for number in range(50):
                connection.send({"type": "websocket.receive", "text": str(number)})
            return [(await connection.receive())["text"] for _ in range(50)]

    assert loop.run_until_complete(run()) == [str(number) for number in range(50)]


def test_some_connections_are_cut(loop):
    async def wait(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    with pytest.raises(ConnectionLost):
        loop.run_until_complete(make_network(wait, loop, cuts=1.0).request("GET", "/"))
    assert loop.time() < 1


def test_a_client_does_not_wait_for_ever(loop):
    async def wait(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    with pytest.raises(ConnectionLost):
        loop.run_until_complete(make_network(wait, loop).request("GET", "/"))


def test_errors_of_the_app_are_noted(loop):
    async def fail(scope, receive, send):
        raise ZeroDivisionError

    errors: list[Exception] = []
    with pytest.raises(ConnectionLost):
        loop.run_until_complete(make_network(fail, loop, errors).request("GET", "/"))
    loop.run_until_complete(asyncio.sleep(1))
    assert [type(error) for error in errors] == [ZeroDivisionError]
