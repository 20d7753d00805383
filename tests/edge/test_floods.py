"""Floods of every kind: the server stays small, others are answered, and all recovers when the attacker leaves."""

import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from mainstem.testing.server import ServerProcess
from tests.edge.floods import MB, Watch
from tests.edge.websockets import frame, open_websocket
from tests.support.plain_http import connect, head, receive_all

pytestmark = pytest.mark.slow

WAIT_MS_MAX = 50
ATTACK_S = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("floods") / "data") as server:
        with httpx2.Client(base_url=server.url) as client:
            client.put("/v1/stream/flooded", headers={"content-type": "text/plain"}).raise_for_status()
            client.put("/v1/stream/large", headers={"content-type": "text/plain"}, content=b"x" * (4 * MB))
        yield server


def pour(connection, data, bytes_max):
    """Send the same bytes repeatedly until the server reads no more. Return how many it read."""
    connection.settimeout(ATTACK_S)
    sent = 0
    try:
        while sent < bytes_max:
            sent += connection.send(data)
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        pass
    return sent


def check(watch, grown_mb):
    assert watch.usual_wait_ms < WAIT_MS_MAX
    assert watch.grown_bytes < grown_mb * MB


@pytest.mark.parametrize(
    "request_",
    [
        head(b"GET", b"/"),
        head(b"GET", b"/v1/stream/large"),
        head(b"POST", b"/v1/stream/flooded", b"Content-Type: text/plain", b"Content-Length: 1") + b"x",
        head(b"POST", b"/v1/stream/none", b"Content-Type: text/plain", b"Content-Length: 1") + b"x",
        head(b"OPTIONS", b"/v1/stream/x"),
    ],
    ids=["missing", "pages", "appends", "errors", "preflights"],
)
def test_pipelined_requests_whose_replies_nobody_reads_are_withstood(server, request_):
    with Watch(server) as watch, connect(server.address, receive_bytes=4096) as connection:
        sent = pour(connection, request_ * (100_000 // len(request_)), 256 * MB)
        assert sent < 64 * MB
    check(watch, 30)


def test_endless_trailers_are_withstood(server):
    begin = head(b"POST", b"/v1/stream/flooded", b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    with Watch(server) as watch, connect(server.address) as connection:
        connection.sendall(begin + b"1\r\nx\r\n0\r\n")
        assert pour(connection, b"X: " + b"y" * 60 + b"\r\n", 51 * MB) < 16 * MB
    check(watch, 20)


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"1;a=b\r\nx\r\n", b"00000001\r\nx\r\n"])
def test_chunks_of_one_byte_are_withstood(server, chunk):
    begin = head(b"POST", b"/v1/stream/none", b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    with Watch(server) as watch, connect(server.address) as connection:
        connection.sendall(begin)
        pour(connection, chunk * 20_000, 8 * MB)
    check(watch, 60)


def test_an_endless_head_on_many_connections_is_withstood(server):
    with Watch(server) as watch:
        connections = [connect(server.address) for _ in range(300)]
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 60_000)
        for connection in connections:
            connection.close()
    check(watch, 80)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (frame(1, last=False), frame(0, last=False)),
        (b"", frame(9)),
        (b"", frame(10)),
        (b"", frame(1, b"{}")),
        (b"", frame(2, b"")),
        (b"", frame(1, b"[" * 100)),
    ],
    ids=["empty fragments", "pings", "pongs", "tiny messages", "empty binaries", "nested messages"],
)
def test_tiny_websocket_frames_are_withstood(server, first, again):
    with Watch(server) as watch, open_websocket(server) as connection:
        connection.sendall(first)
        pour(connection, again * 10_000, 8 * MB)
    check(watch, 40)


def test_unfinished_messages_are_withstood(server):
    """Each is below the limit of a message; the memory budget limits all of them together."""
    with Watch(server) as watch:
        connections = [open_websocket(server) for _ in range(50)]
        for connection in connections:
            connection.sendall(frame(1, b"x" * 60_000, last=False))
        for connection in connections:
            connection.close()
    check(watch, 40)


def test_readers_that_read_nothing_are_withstood(server):
    """Pages of one megabyte each, for readers that never read."""
    with Watch(server) as watch:
        connections = [connect(server.address, receive_bytes=4096) for _ in range(60)]
        for connection in connections:
            connection.sendall(head(b"GET", b"/v1/stream/large"))
        for connection in connections:
            connection.recv(1)
        for connection in connections:
            connection.close()
    check(watch, 120)


def test_connections_that_come_and_go_are_withstood(server):
    def knock(number):
        with connect(server.address) as connection:
            connection.sendall(os.urandom(64) if number % 2 else b"GET / HT")
            if number % 3:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset

    with Watch(server) as watch, ThreadPoolExecutor(4) as pool:
        list(pool.map(knock, range(2_000)))
    check(watch, 30)


def test_the_server_still_works_after_all_floods(server):
    with httpx2.Client(base_url=server.url) as client:
        assert client.get("/readyz").status_code == 200
        assert set(client.get("/v1/stream/flooded").content) <= set(b"x")
    with connect(server.address) as connection:
        connection.sendall(head(b"GET", b"/healthz", b"Connection: close"))
        assert b" 200 " in receive_all(connection)
    assert "Traceback" not in server.stderr
