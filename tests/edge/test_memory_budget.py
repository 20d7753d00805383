"""All connections share one memory budget: the connection that stalls longest is shed first."""

import select
import threading
from contextlib import ExitStack

import pytest

from mainstem import limits
from mainstem.streams.rules import json_mode
from mainstem.streams.rules.json_mode import Messages
from tests.edge.websockets import frame, open_websocket
from tests.support.plain_http import connect, head, receive, receive_all, statuses

MB = 1 << 20


@pytest.fixture
def server(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "CONNECTION_BYTES_TOTAL_MAX", 3 * MB)
    return start_thread()


@pytest.fixture
def client(server, connect_to):
    client = connect_to(server)
    client.put("/v1/stream/a", headers={"content-type": "text/plain"}).raise_for_status()
    return client


def begin_append(server, size, sent):
    connection = connect(server.address)
    fields = (b"Content-Type: text/plain", b"Content-Length: %d" % size)
    connection.sendall(head(b"POST", b"/v1/stream/a", *fields) + b"x" * sent)
    return connection


def test_the_oldest_withheld_body_is_shed(client, server):
    withheld = [begin_append(server, 2 * MB, MB) for _ in range(2)]
    with begin_append(server, 2 * MB, 2 * MB - 1) as honest:
        reply = receive(withheld[0])
        assert (reply.status, reply.problem["code"], reply.headers["retry-after"]) == (503, "overloaded", "1")
        honest.sendall(b"!")
        assert receive(honest).status == 204
    for connection in withheld:
        connection.close()
    assert client.head("/v1/stream/a").headers["stream-next-offset"].endswith(f"_{2 * MB:016d}")


def test_a_body_larger_than_the_budget_is_refused_alone(client, server):
    with begin_append(server, 8 * MB, 0) as connection:
        try:
            connection.sendall(b"x" * (8 * MB - 1))
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert receive(connection).status == 503
    assert client.post("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"y").status_code == 204
    assert client.get("/v1/stream/a").content == b"y"


def test_readers_that_read_nothing_are_shed(start_thread, connect_to, monkeypatch):
    """Pages are large here, since the kernel buffers some megabytes of each before the server has to hold any."""
    monkeypatch.setattr(limits, "CONNECTION_BYTES_TOTAL_MAX", 24 * MB)
    server = start_thread(page_bytes=8 * MB)
    client = connect_to(server)
    client.put("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"z" * 8 * MB)
    stalled = []
    for _ in range(8):
        connection = connect(server.address, receive_bytes=4096)
        connection.sendall(head(b"GET", b"/v1/stream/a", b"Connection: close"))
        connection.recv(1)
        stalled.append(connection)
    assert client.get("/v1/stream/a").content == b"z" * 8 * MB
    whole = [read_whole(connection) for connection in stalled]
    assert whole[0] is False
    assert whole[-1] is True


def ended(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def read_whole(connection):
    with connection:
        try:
            return len(receive_all(connection)) > 8 * MB
        except ConnectionResetError:
            return False


def test_a_complete_body_counts_until_it_is_answered(client, server, monkeypatch):
    """It stays in memory while it is parsed or committed: others have to wait, and it is not shed."""
    waiting, go_on = threading.Event(), threading.Event()

    def parse(*args, **kwargs):
        waiting.set()
        assert go_on.wait(30)
        return Messages(b"1,", 1)

    monkeypatch.setattr(json_mode, "parse_body", parse)
    client.put("/v1/stream/j", headers={"content-type": "application/json"})
    fields = (b"Content-Type: application/json", b"Content-Length: %d" % (2 * MB))
    with connect(server.address) as complete:
        complete.sendall(head(b"POST", b"/v1/stream/j", *fields) + b"1" * (2 * MB))
        assert waiting.wait(30)
        with begin_append(server, 2 * MB, 2 * MB - 1) as late:
            assert receive(late).status == 503
        go_on.set()
        assert receive(complete).status == 204
    assert client.post("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"x" * 2 * MB).status_code == 204


def test_answered_requests_cost_nothing(client, server):
    for _ in range(5):
        assert (
            client.post("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"x" * 2 * MB).status_code
            == 204
        )
    with connect(server.address) as connection:
        connection.sendall(head(b"GET", b"/healthz", b"Connection: close"))
        assert statuses(receive_all(connection)) == [200]


UNFINISHED = {
    "fragments": frame(1, b"x" * 60_000, last=False) + frame(0, b"x" * 60_000, last=False) * 13,
    "a frame": bytes([0x81, 0xFF]) + (1_000_000).to_bytes(8, "big") + bytes(4) + b"x" * 840_000,
}


@pytest.mark.parametrize("kind", UNFINISHED)
def test_unfinished_messages_are_shed(client, server, kind):
    with ExitStack() as stack:
        connections = [stack.enter_context(open_websocket(server)) for _ in range(4)]
        for connection in connections:  # four times 840 KB are too much
            connection.sendall(UNFINISHED[kind])
        cut, _, _ = select.select(connections, [], [], 8)
        assert len(cut) == 1
        assert ended(cut[0])


@pytest.mark.parametrize("method", [b"POST", b"PUT"])
def test_an_overloaded_server_refuses_a_large_body_before_it_is_sent(client, server, monkeypatch, method):
    monkeypatch.setattr(limits, "COMMANDS_WAITING_MAX", 0)
    fields = (b"Content-Type: text/plain", b"Content-Length: %d" % MB)
    with connect(server.address) as connection:
        connection.sendall(head(method, b"/v1/stream/a", *fields))
        reply = receive(connection)
        assert (reply.status, reply.problem["code"], reply.headers["retry-after"]) == (503, "overloaded", "1")
        monkeypatch.undo()
        connection.sendall(b"x" * MB + head(b"GET", b"/v1/stream/a"))  # the body that was refused, and a new request
        assert receive(connection).body == b""
