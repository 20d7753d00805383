"""What one expects of a server: all kinds of sockets, TLS, 100-continue, half-closed clients, a clean shutdown."""

import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.testing.server import COMMAND, ServerNotReady, ServerProcess
from tests.edge.websockets import HANDSHAKE, frame
from tests.support.certificates import make_certificate
from tests.support.plain_http import EventReader, connect, exchange, head, post, receive, receive_all, statuses

LAST = b"Connection: close"


@pytest.fixture
def stream(client):
    target = f"/v1/stream/serving/{os.urandom(6).hex()}"
    assert client.put(target, headers={"content-type": "text/plain"}).status_code == 201
    return target


# Sockets


def ask(connection, target=b"/healthz"):
    connection.settimeout(30)
    connection.sendall(head(b"GET", target, LAST))
    return receive_all(connection)


def test_the_server_listens_on_a_unix_socket_and_leaves_other_files_alone(tmp_path):
    path = tmp_path / "mainstem.sock"
    with ServerProcess(tmp_path / "data", "--unix-socket", str(path)) as server:
        assert server.url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o660
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                assert statuses(ask(connection)) == [200]
        with pytest.raises(ServerNotReady, match="in use"), ServerProcess(tmp_path / "b", "--unix-socket", str(path)):
            pass
        server.kill()
        server.start()  # replaces the socket that the killed server left
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            assert statuses(ask(connection)) == [200]
    file = tmp_path / "precious"
    file.write_text("kept")
    with pytest.raises(ServerNotReady, match="precious"), ServerProcess(tmp_path / "b", "--unix-socket", str(file)):
        pass
    assert file.read_text() == "kept"


def test_the_server_uses_a_socket_that_was_opened_for_it(tmp_path):
    """As with socket activation: clients that connect before the server runs are served too."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with connect(listener.getsockname()) as early:
            early.sendall(head(b"GET", b"/healthz", LAST))
            process = subprocess.Popen(
                [*COMMAND, "--fd", str(listener.fileno()), "--data", str(tmp_path / "data")],
                pass_fds=[listener.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            try:
                assert statuses(receive_all(early)) == [200]
            finally:
                process.terminate()
                process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("fd", ["7", "0"])
def test_a_descriptor_that_is_not_a_socket_is_refused_in_one_sentence(tmp_path, fd):
    message = f"--fd {fd}: this file descriptor is not an open socket"
    with pytest.raises(ServerNotReady, match=message), ServerProcess(tmp_path / "data", "--fd", fd):
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder)
    return folder


def test_the_server_speaks_tls(tmp_path, certificate):
    flags = ("--tls-cert", str(certificate / "cert.pem"), "--tls-key", str(certificate / "cert.key"))
    with ServerProcess(tmp_path / "data", *flags) as server:
        assert server.url.startswith("https://")
        port = int(server.url.rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        with connect(("127.0.0.1", port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.selected_alpn_protocol() == "http/1.1"
            body = b"x" * 200_000
            secure.sendall(head(b"PUT", b"/v1/stream/a", b"Content-Type: text/plain", b"Content-Length: 200000") + body)
            reply = receive(secure)
            assert (reply.status, reply.headers["location"]) == (201, "https://test/v1/stream/a")
            secure.sendall(head(b"GET", b"/v1/stream/a", LAST))
            assert receive(secure).body == body
        with connect(("127.0.0.1", port)) as plain:
            plain.sendall(head(b"GET", b"/healthz"))
            assert not statuses(receive_all(plain))


def test_a_certificate_that_cannot_be_loaded_is_named(tmp_path):
    for flags in (("--tls-cert", "/nowhere.pem"), ("--tls-key", "/nowhere.key")):
        with pytest.raises(ServerNotReady, match=r"nowhere|tls_cert"), ServerProcess(tmp_path / "data", *flags):
            pass


# Requests


def test_100_continue_is_sent_when_the_body_is_wanted(client, server, stream):
    lines = (b"Content-Type: text/plain", b"Content-Length: 5", b"Expect: 100-continue")
    with connect(server.address) as connection:
        connection.sendall(head(b"POST", stream.encode(), *lines))
        assert connection.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        assert receive(connection).status == 204
        connection.sendall(post(stream, b"!"))
        assert receive(connection).status == 204
    assert client.get(stream).content == b"hello!"


def test_100_continue_is_not_sent_for_an_unwanted_body(client, server, stream):
    """The client may send the body or not: the server cannot tell what follows, so the connection ends."""
    lines = (b"Content-Type: text/plain", b"Content-Length: 999999999", b"Expect: 100-continue")
    with connect(server.address) as connection:
        connection.sendall(head(b"POST", stream.encode(), *lines))
        reply = receive_all(connection)
    assert statuses(reply) == [413]
    assert b"connection: close" in reply


def test_a_client_may_close_its_half_and_still_gets_the_reply(client, server, stream):
    with connect(server.address) as connection:
        connection.sendall(post(stream, b"a") + post(stream, b"b"))
        connection.shutdown(socket.SHUT_WR)
        assert statuses(receive_all(connection))[0] == 204
    assert client.get(stream).content[:1] == b"a"
    cut = head(b"POST", stream.encode(), b"Content-Type: text/plain", b"Content-Length: 9") + b"cut"
    assert exchange(server.address, cut.replace(b"Content-Length: 9", b"Content-Length: 99999"), end=True).status == 400


def test_a_reader_that_closes_its_half_is_disconnected(server, stream, client):
    before = server.app.live.readers
    with EventReader(server.address, f"{stream}?offset=-1&live=sse") as reader:
        reader.take(1)
        assert server.app.live.readers == before + 1
        reader.connection.shutdown(socket.SHUT_WR)
        with pytest.raises((AssertionError, ConnectionResetError)):  # disconnected, like a reader that has left
            reader.next()
    assert server.app.live.readers == before


def test_an_early_reply_to_a_long_body_keeps_the_connection(client, server):
    """The server reads and discards the body of a request that it refused by its head."""
    body = b"x" * 300_000
    with connect(server.address) as connection:
        connection.sendall(
            head(b"PATCH", b"/v1/nothing", b"Content-Length: 300000") + body + head(b"GET", b"/healthz", LAST)
        )
        assert statuses(receive_all(connection)) == [404, 200]


@pytest.mark.parametrize("minor", [b"0", b"1"])
def test_a_reply_of_unknown_length_has_a_recognisable_end(client, server, stream, minor):
    client.post(stream, headers={"stream-closed": "true"})
    raw = head(b"GET", stream.encode() + b"?offset=-1&live=sse", LAST).replace(b"HTTP/1.1", b"HTTP/1." + minor)
    with connect(server.address) as connection:
        connection.sendall(raw)
        reply = receive_all(connection)
    assert (b"transfer-encoding: chunked" in reply) is (minor == b"1")
    assert reply.endswith(b"0\r\n\r\n") is (minor == b"1")
    assert b"event: control" in reply


def test_a_head_request_gets_only_the_head(server, client, stream):
    with connect(server.address) as connection:
        connection.sendall(
            head(b"HEAD", b"/v1/nothing") + head(b"HEAD", stream.encode()) + head(b"GET", b"/healthz", LAST)
        )
        assert statuses(receive_all(connection)) == [404, 200, 200]


def test_every_reply_has_a_date(server):
    for raw in (
        head(b"GET", b"/healthz"),
        head(b"POST", b"/v1/stream/none", b"Content-Length: 1") + b"x",
        b"nonsense\r\n\r\n",
    ):
        assert exchange(server.address, raw).headers["date"].endswith("GMT")


def test_frames_that_arrive_with_the_handshake_are_read_after_it(client, server, stream):
    """In one segment, and on a connection that was used before: nothing is lost, and nothing runs twice."""
    with connect(server.address) as connection:
        connection.sendall(
            post(stream, b"once") + head(b"GET", b"/v1/sync", *HANDSHAKE) + frame(1, b"{}") + frame(9, b"x")
        )
        received = b""
        # A pong and the refusal of an invalid envelope, in either order: the refusal comes from the app's task.
        while b"\x8a\x01x" not in received or b'"bad_request"' not in received:
            part = connection.recv(65536)
            assert part, received
            received += part
    assert statuses(received) == [204, 101]
    assert client.get(stream).content == b"once"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8"),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"X: y"),
        (b"Upgrade: websocket", b"Upgrade: websocket, websocket"),
    ],
)
def test_a_malformed_handshake_gets_a_documented_error(server, line, instead):
    lines = [instead if each == line else each for each in HANDSHAKE]
    reply = exchange(server.address, head(b"GET", b"/v1/sync", *lines))
    assert reply.problem["code"] == "bad_request"
    assert reply.headers["sec-websocket-version"] == "13"


# Time limits


def test_a_request_that_never_ends_is_abandoned(start_thread, monkeypatch, connect_to):
    monkeypatch.setattr(limits, "REQUEST_WAIT_S_MAX", 0.2)
    monkeypatch.setattr(limits, "DEADLINE_CHECK_S", 0.05)
    server = start_thread()
    client = connect_to(server)
    client.put("/v1/stream/a", headers={"content-type": "text/plain"})
    for raw in (
        b"GET / HT",
        b"\r\n",
        head(b"POST", b"/v1/stream/a", b"Content-Type: text/plain", b"Content-Length: 9") + b"x",
    ):
        with connect(server.address) as connection:
            connection.sendall(raw)
            assert set(statuses(receive_all(connection))) <= {408}
    with connect(server.address) as connection:
        assert receive_all(connection) == b""
    assert client.get("/v1/stream/a").content == b""


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "KEEP_ALIVE_S", 0.2)
    monkeypatch.setattr(limits, "DEADLINE_CHECK_S", 0.05)
    server = start_thread(long_poll_ms=1_000)
    with connect(server.address) as connection:
        connection.sendall(head(b"PUT", b"/v1/stream/a", b"Content-Type: text/plain"))
        assert receive(connection).status == 201
        connection.sendall(head(b"GET", b"/v1/stream/a?offset=now&live=long-poll"))
        assert receive(connection).status == 204  # after five times as long
        assert receive_all(connection) == b""


# Shutdown


def test_a_signal_lets_every_client_finish(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        with connect(server.address) as setting_up:
            setting_up.sendall(head(b"PUT", b"/v1/stream/a", b"Content-Type: text/plain", LAST))
            assert statuses(receive_all(setting_up)) == [201]
        with (
            EventReader(server.address, "/v1/stream/a?offset=-1&live=sse") as reader,
            connect(server.address) as poller,
            connect(server.address) as idle,
            connect(server.address) as late,
        ):
            reader.take(1)
            poller.sendall(head(b"GET", b"/v1/stream/a?offset=now&live=long-poll"))
            late.sendall(head(b"POST", b"/v1/stream/a", b"Content-Type: text/plain", b"Content-Length: 2") + b"o")
            idle.sendall(head(b"GET", b"/healthz"))
            assert receive(idle).status == 200
            server.signal(signal.SIGTERM)
            assert receive_all(idle) == b""
            assert reader.rest() == []
            assert receive(poller).status == 204
            late.sendall(b"k")
            reply = receive(late)
            assert reply.headers["connection"] == "close"
            # The clients keep their sockets open: the server ends the connections.
            assert server.wait() == 0
        assert "aborted" not in server.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_exits_with_success_after_either_signal(tmp_path, number):
    with ServerProcess(tmp_path / "data") as server:
        server.signal(number)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr
