"""How many connections are allowed: in total, and from one address."""

from contextlib import ExitStack

import pytest

from mainstem import limits
from tests.edge.websockets import open_websocket
from tests.support.plain_http import connect, exchange, head, receive

ASK = head(b"GET", b"/healthz")


def test_an_address_has_a_limited_number_of_connections(start_thread):
    server = start_thread(max_connections_per_client=3)
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server.address)) for _ in range(2)]
        connections.append(stack.enter_context(open_websocket(server)))
        refused = exchange(server.address, b"")
        assert (refused.status, refused.problem["code"]) == (429, "share_exceeded")
        assert refused.headers["retry-after"]
        for connection in connections[:2]:
            connection.sendall(ASK)
            assert receive(connection).status == 200
    while exchange(server.address, ASK).status != 200:  # ends once the server has noticed that they left
        pass


def test_all_addresses_together_have_a_limited_number_of_connections(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "CONNECTIONS_MAX", 2)
    server = start_thread()
    with connect(server.address) as first, connect(server.address) as second:
        for connection in (first, second):
            connection.sendall(ASK)
            assert receive(connection).status == 200
        refused = exchange(server.address, b"")
        assert (refused.status, refused.problem["code"]) == (503, "overloaded")
        first.sendall(ASK)
        assert receive(first).status == 200


@pytest.mark.parametrize("number", [200])
def test_a_connection_is_uncounted_however_it_ends(start_thread, number):
    server = start_thread(max_connections_per_client=8)
    endings = [
        b"",
        ASK,
        b"nonsense\r\n\r\n",
        head(b"GET", b"/healthz", b"Connection: close"),
        head(b"GET", b"/v1/sync", b"Connection: Upgrade", b"Upgrade: websocket"),
        b"GET / HT",
    ]
    for turn in range(number):
        with connect(server.address) as connection:
            connection.sendall(endings[turn % len(endings)])
    while exchange(server.address, ASK).status != 200:
        pass
