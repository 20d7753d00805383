"""A job that cannot work says so in one sentence, before Spark starts."""

import socket
import socketserver
import threading
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.errors import RequestRefused, ServerUnreachable
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.import_ import make_import
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.import_source import ImportSource
from mainstem.server import Settings
from mainstem.testing.server_thread import ServerThread
from tests.support.issuers import Issuer, write_secret


@pytest.fixture
def nowhere() -> str:
    """The URL of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def guarded(tmp_path: Path):
    """A server that asks for tokens, and the issuer of these."""
    secret = write_secret(tmp_path / "secret")
    with ServerThread(
        Settings(port=0, data=str(tmp_path / "data"), jwt_secret_file=str(tmp_path / "secret"))
    ) as server:
        yield server.url, secret


def check(url: str, folder: Path, token: str | None = None, **options) -> None:
    JobContext(ServerOptions(url, token, **options), folder, patient=False).check()


def test_a_server_that_is_away_is_reported_at_once(shell, nowhere):
    done = shell("pipeline", "archive", "table", "--url", nowhere)
    done.fails(3, f"{nowhere} does not answer: connection refused", "--retry")
    done = shell(
        "pipeline", "import", __file__, "--format", "csv", "--stream", "a", "--url", "http://no.such.host.invalid"
    )
    done.fails(3, "http://no.such.host.invalid does not answer: its host name is unknown")


def test_retry_asks_for_waiting(shell, nowhere):
    done = shell("pipeline", "archive", "table", "--url", nowhere, "--retry", "1")
    done.fails(3, f"{nowhere} did not answer GET /v1/whoami within 1 s: connection refused")


def test_a_server_that_is_silent_is_reported_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "FIRST_REPLY_S_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnreachable, match="does not answer: no reply in time"):
            check(url, tmp_path)


def test_a_token_that_does_not_suffice_is_reported(guarded, tmp_path, shell):
    url, secret = guarded
    shell("pipeline", "archive", "table", "--url", url).fails(4, "requires a token")
    shell("pipeline", "archive", "table", "--url", url, "--token", "x").fails(4, "valid token")
    weak = secret.token(client_id="c", streams=["**"])
    shell("pipeline", "archive", "table", "--url", url, "--token", weak).fails(4, "lacks the admin claim")
    (tmp_path / "token").write_text("x")
    with pytest.raises(RequestRefused, match="put a valid one there"):
        check(url, tmp_path, token_file=str(tmp_path / "token"))
    check(url, tmp_path, secret.token(client_id="c", admin=True))


def test_events_need_a_token_of_their_client(guarded: tuple[str, Issuer], tmp_path):
    url, secret = guarded
    (tmp_path / "x.ndjson").write_text('{"n":1}\n')
    context = JobContext(ServerOptions(url, secret.token(client_id="c", admin=True)), tmp_path / "checkpoint")
    source = ImportSource(str(tmp_path / "x.ndjson"), "ndjson")
    with pytest.raises(RequestRefused, match="pass --client-id c"):
        run_once(make_import(source, {"partitions": "room"}), context)
    assert run_once(make_import(source, {"partitions": "room", "clientId": "c"}), context).rows == 1


def test_where_the_job_writes_is_checked(log, shell, tmp_path):
    (tmp_path / "file").write_text("x")
    for arguments in (("archive", "file/table"), ("export", "file/out"), ("export", "out", "--checkpoint", "file/c")):
        shell("pipeline", *arguments, "--url", log.url).fails(7, "file")


def test_a_server_that_is_not_mainstem_is_reported(tmp_path):
    class Other(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(10_000)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    with socketserver.TCPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_address[1]}"
        with pytest.raises(RequestRefused, match="like no Mainstem server does: check the url"):
            check(url, tmp_path)
        other.shutdown()
