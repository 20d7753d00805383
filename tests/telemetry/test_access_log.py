"""The access log, request ids and the lines about refused requests, of a real server process."""

import json
import os
import re
import subprocess

import pytest

from mainstem.testing.server import COMMAND, PROGRAM, ServerProcess
from tests.support.plain_http import connect, exchange, head, post, receive
from tests.support.waits import eventually


class LoggingServer:
    """A server whose standard output is a file."""

    def __init__(self, folder, *flags):
        self.output = folder / "output"
        self._file = self.output.open("wb")
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", "--data", str(folder / "data"), *flags], stdout=self._file, stderr=self._file
        )
        ready = eventually(lambda: re.search(r"ready on http://127\.0\.0\.1:(\d+)", self.output.read_text()))
        self.address = ("127.0.0.1", int(ready[1]))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self._file.close()

    def lines(self):
        return [json.loads(line) for line in self.output.read_text().splitlines() if line.startswith("{")]

    def wait_for(self, request_id):
        return eventually(lambda: next((line for line in self.lines() if line["request_id"] == request_id), None))


@pytest.fixture
def server(tmp_path):
    with LoggingServer(tmp_path, "--access-log", "json") as server:
        yield server


def test_every_request_has_a_line_without_its_query_and_payload(server):
    create = head(b"PUT", b"/v1/stream/chat", b"Content-Type: text/plain", b"X-Request-Id: create-1")
    assert exchange(server.address, create).headers["x-request-id"] == "create-1"
    append = post("/v1/stream/chat", b"a secret", b"X-Request-Id: append-1", b"User-Agent: test/1")
    assert exchange(server.address, append).status == 204
    read = head(b"GET", b"/v1/stream/chat?offset=-1&token=secret", b"X-Request-Id: read-1", b"Connection: close")
    assert exchange(server.address, read).status == 200
    created, appended, found = (server.wait_for(name) for name in ("create-1", "append-1", "read-1"))
    assert (created["method"], created["status"], created["client"]) == ("PUT", 201, "127.0.0.1")
    assert (appended["method"], appended["status"], appended["user_agent"]) == ("POST", 204, "test/1")
    assert (found["path"], found["route"], found["status"]) == ("/v1/stream/chat", "/v1/stream/{path}", 200)
    assert found["bytes"] > len("a secret")
    assert "secret" not in server.output.read_text()


def test_a_request_without_an_id_gets_one(server):
    reply = exchange(server.address, head(b"GET", b"/healthz", b"Connection: close"))
    assert server.wait_for(reply.headers["x-request-id"])["path"] == "/healthz"


def test_an_event_stream_has_its_line_when_it_ends(server):
    exchange(server.address, head(b"PUT", b"/v1/stream/s", b"Content-Type: text/plain", b"Connection: close"))
    with connect(server.address) as connection:
        connection.sendall(head(b"GET", b"/v1/stream/s?offset=-1&live=sse", b"X-Request-Id: live-1"))
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        exchange(server.address, post("/v1/stream/s", b"x" * 5000, b"Connection: close"))
    line = server.wait_for("live-1")
    assert (line["route"], line["status"]) == ("/v1/stream/{path}?live=sse", 200)


def test_subjects_are_named_and_tokens_are_not(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s" * 40)
    secret.chmod(0o600)
    command = [*PROGRAM, "token", "--secret-file", str(secret), "--client-id", "ada", "--read", "**"]
    token = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    with LoggingServer(tmp_path, "--access-log", "json", "--jwt-secret-file", str(secret)) as server:
        bearer = b"Authorization: Bearer " + token.encode()
        for number in range(3):
            request = head(b"GET", b"/v1/streams", bearer, b"X-Request-Id: r%d" % number, b"Connection: close")
            assert exchange(server.address, request).status == 200
        refused = head(b"GET", b"/v1/streams", b"Authorization: Bearer x.y.z", b"Connection: close")
        answers = [exchange(server.address, refused) for _ in range(20)]
        assert {reply.status for reply in answers} == {401}
        assert len({reply.problem["request_id"] for reply in answers}) == 20
        assert server.wait_for("r2")["subject"] == "client ada"
        assert server.wait_for(answers[-1].problem["request_id"])["subject"] is None
        text = server.output.read_text()
        assert token.split(".")[2] not in text
        assert "x.y.z" not in text
        assert text.count("refused with 401 unauthorized") == 1


@pytest.mark.parametrize("value", [b"a b", b"x" * 129, b'"', b"\xff", b"<script>"])
def test_an_id_that_could_confuse_a_log_is_replaced(tmp_path, value):
    with ServerProcess(tmp_path / "data") as server:
        request = head(b"GET", b"/nothing", b"X-Request-Id: " + value, b"Connection: close")
        reply = exchange(server.address, request)
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]{10}", reply.headers["x-request-id"])
        assert reply.problem["request_id"] == reply.headers["x-request-id"]


def test_pipelined_requests_keep_their_ids(tmp_path):
    with ServerProcess(tmp_path / "data") as server, connect(server.address) as connection:
        names = [b"first", b"second", b"third"]
        connection.sendall(b"".join(head(b"GET", b"/healthz", b"X-Request-Id: " + name) for name in names))
        received = b""
        while received.count(b'"status":"ok"') < 3:
            received += connection.recv(10_000)
        assert re.findall(rb"x-request-id: (\w+)", received) == names


def test_a_reader_of_the_log_that_stops_does_not_stop_the_server(tmp_path):
    """Fill the pipe of standard output, which nobody reads any more."""
    with ServerProcess(tmp_path / "data", "--access-log", "combined") as server, connect(server.address) as connection:
        agent = b"User-Agent: " + b"x" * 400
        for _ in range(600):  # a pipe holds 64 KiB
            connection.sendall(head(b"GET", b"/healthz", agent))
            assert receive(connection).status == 200
        os.kill(server.pid, 0)
