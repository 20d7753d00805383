"""The HTTP client: it retries temporary failures, reports others at once, and retries nothing forever."""

import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from mainstem import limits
from mainstem.errors import BadOption, RequestRefused, ServerUnreachable
from mainstem.pipeline.http_client import HttpClient, ServerOptions, describe_failure


class NotJson:
    """The reply of another kind of server."""


class ScriptedServer(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Script)
        self.answers: list[Any] = []
        self.seen: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Script(BaseHTTPRequestHandler):
    """Replies as the test says: with a status, or None to break the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        assert isinstance(self.server, ScriptedServer)
        self.server.seen.append(self.headers.get("Authorization"))
        answer = self.server.answers.pop(0)
        if answer is None:
            self.close_connection = True
            return
        status, problem = answer
        body = b"<html>" if isinstance(problem, NotJson) else json.dumps(problem).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(limits, "PIPELINE_BACKOFF_S", 0.001)
    with ScriptedServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, **options):
    with HttpClient(ServerOptions(server.url, **options)) as client:
        return client.get_json("/x")


def test_temporary_failures_are_retried(server):
    server.answers = [(503, {}), None, (429, {}), (500, {"retryable": True}), (408, {}), (200, {"ok": 1})]
    assert ask(server) == {"ok": 1}
    assert server.answers == []


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_other_failures_are_raised_with_their_code(server, status):
    server.answers = [(status, {"code": "some_code", "detail": "in words"})]
    with pytest.raises(RequestRefused, match=f"{status} some_code: in words"):
        ask(server)


def test_a_refused_token_is_an_error_and_a_token_file_is_read_again(server, tmp_path):
    server.answers = [(401, {"code": "unauthorized"})]
    with pytest.raises(RequestRefused, match="valid token"):
        ask(server, token="old")
    file = tmp_path / "token"
    file.write_text("old\n")
    server.answers = [(401, {}), (200, {"ok": 1})]

    class Renewed(ServerOptions):
        def read_token(self):
            found = super().read_token()
            file.write_text("new\n")
            return found

    with HttpClient(Renewed(server.url, token_file=str(file))) as client:
        assert client.get_json("/x") == {"ok": 1}
    assert server.seen == ["Bearer old", "Bearer old", "Bearer new"]
    server.answers = [(401, {"code": "unauthorized", "detail": "no"})] * 2
    with pytest.raises(
        RequestRefused, match=r"401 unauthorized: no. Nobody renewed the token in .*: put a valid one there"
    ):
        ask(server, token_file=str(file), retry_s=0)
    with pytest.raises(BadOption, match=r"cannot read the token in .*missing"):
        ask(server, token_file=str(tmp_path / "missing"))


def test_a_wait_for_the_server_is_reported_once_per_request(server, monkeypatch):
    monkeypatch.setattr(limits, "PIPELINE_SILENT_S", 0.0)
    heard: list[str] = []
    server.answers = [(503, {"code": "overloaded"}), None, (503, {}), (200, {"ok": 1}), (200, {"ok": 2})]
    with HttpClient(ServerOptions(server.url, retry_s=60), heard.append) as client:
        assert client.get_json("/x") == {"ok": 1}
        assert client.get_json("/x") == {"ok": 2}
    [said] = heard
    assert said == f"waiting up to 60 s for {server.url}: 503 overloaded"


@pytest.mark.parametrize("status", [200, 404])
def test_another_kind_of_server_is_recognised(server, status):
    server.answers = [(status, NotJson())]
    with pytest.raises(RequestRefused, match="is it a Mainstem server"):
        ask(server)


def test_retries_end_with_the_deadline(server):
    server.answers = [(503, {"code": "overloaded"})]
    with pytest.raises(ServerUnreachable, match="overloaded"):
        ask(server, retry_s=0)
    with (
        HttpClient(ServerOptions("http://127.0.0.1:9", retry_s=0)) as client,
        pytest.raises(ServerUnreachable, match="did not answer GET /x within 0 s: connection refused"),
    ):
        client.get_json("/x")


@pytest.mark.parametrize(
    "url", ["localhost:4437", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://[::1"]
)
def test_an_invalid_url_is_refused(url):
    with pytest.raises(BadOption, match="url must be"):
        HttpClient(ServerOptions(url))


@pytest.mark.parametrize("url", ["http://x:1/v1/stream", "http://x:1/v1/stream/"])
def test_a_url_of_the_streams_is_refused(url):
    with pytest.raises(BadOption, match="url must not end in /v1/stream: give http://x:1"):
        HttpClient(ServerOptions(url))


def test_https_to_a_server_without_tls_is_refused(server):
    url = server.url.replace("http://", "https://")
    with HttpClient(ServerOptions(url)) as client, pytest.raises(BadOption, match="does not use TLS"):
        client.get_json("/x")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "its host name is unknown"),
        (TimeoutError("timed out"), "no reply in time"),
        (http.client.RemoteDisconnected("Remote end closed"), "the connection broke"),
        (http.client.BadStatusLine("xx"), "the reply is not HTTP"),
        (OSError(113, "No route to host"), "no route to host"),
    ],
)
def test_failures_are_described_in_words(error, text):
    assert describe_failure(error) == text
