"""The HTTP client: what can pass is tried again, what cannot is told at once, and nothing is tried for ever."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from mainstem import limits
from mainstem.errors import BadOption, RequestRefused, ServerUnreachable
from mainstem.pipeline.http_client import HttpClient, ServerOptions


class NotJson:
    """An answer of somebody else."""


class ScriptedServer(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Script)
        self.answers: list[Any] = []
        self.seen: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Script(BaseHTTPRequestHandler):
    """Answers with what the test has written down: statuses, or None for a connection that breaks."""

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


def test_what_can_pass_is_tried_again(server):
    server.answers = [(503, {}), None, (429, {}), (500, {"retryable": True}), (408, {}), (200, {"ok": 1})]
    assert ask(server) == {"ok": 1}
    assert server.answers == []


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_what_cannot_pass_is_told_with_its_code(server, status):
    server.answers = [(status, {"code": "some_code", "detail": "in words"})]
    with pytest.raises(RequestRefused, match=f"{status} some_code: in words"):
        ask(server)


def test_a_refused_token_is_told_and_one_in_a_file_is_read_again(server, tmp_path):
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
    with pytest.raises(RequestRefused, match=r"401 unauthorized: no. The token in .* was not renewed within 0 s"):
        ask(server, token_file=str(file), retry_s=0)
    with pytest.raises(BadOption, match=r"cannot read the token in .*missing"):
        ask(server, token_file=str(tmp_path / "missing"))


def test_whoever_listens_hears_once_that_the_server_is_waited_for(server, monkeypatch):
    monkeypatch.setattr(limits, "PIPELINE_SILENT_S", 0.0)
    heard: list[str] = []
    server.answers = [(503, {"code": "overloaded"}), None, (503, {}), (200, {"ok": 1}), (200, {"ok": 2})]
    with HttpClient(ServerOptions(server.url, retry_s=60), heard.append) as client:
        assert client.get_json("/x") == {"ok": 1}
        assert client.get_json("/x") == {"ok": 2}
    [said] = heard
    assert said.startswith(f"waiting for {server.url}, 60 s at most: 503 overloaded")


def test_a_server_of_another_kind_is_told(server):
    server.answers = [(200, NotJson())]
    with pytest.raises(RequestRefused, match="is it a Mainstem server"):
        ask(server)


def test_nobody_is_asked_for_ever(server):
    server.answers = [(503, {"code": "overloaded"})]
    with pytest.raises(ServerUnreachable, match="overloaded"):
        ask(server, retry_s=0)
    with (
        HttpClient(ServerOptions("http://127.0.0.1:9", retry_s=0)) as client,
        pytest.raises(ServerUnreachable, match="Start it, then"),
    ):
        client.get_json("/x")


@pytest.mark.parametrize(
    "url", ["localhost:4437", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://[::1"]
)
def test_a_url_of_another_kind_is_told(url):
    with pytest.raises(BadOption, match="url must be"):
        HttpClient(ServerOptions(url))
