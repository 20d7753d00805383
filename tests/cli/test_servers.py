"""Servers that require a token, are of another kind, or go away: what a command says about them."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mainstem import limits
from mainstem.client import Retries
from mainstem.testing.server import ServerProcess


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


NEEDS_TOKEN = [
    ["stream", "ls"],
    ["stream", "create", "x"],
    ["stream", "append", "x", "-m", "data"],
    ["stream", "read", "x"],
    ["stream", "tail", "x"],
    ["stream", "watch", "x"],
    ["stream", "head", "x"],
    ["stream", "close", "x"],
    ["stream", "fork", "y", "x"],
    ["stream", "rm", "x"],
    ["sync", "submit", "-p", "room", "-m", "{}"],
    ["sync", "pull", "-p", "room"],
    ["sync", "tail", "-p", "room"],
    ["log", "head"],
    ["log", "tail"],
    ["subscription", "create", "x", "--wake-stream", "w", "--pattern", "a"],
    ["subscription", "ls"],
    ["subscription", "get", "x"],
    ["subscription", "show", "x"],
    ["subscription", "pause", "x"],
    ["subscription", "resume", "x"],
    ["subscription", "redeliver", "x"],
    ["subscription", "rm", "x"],
    ["subscription", "link", "x", "a"],
    ["subscription", "unlink", "x", "a"],
    ["subscription", "claim", "x"],
    ["bench"],
    ["pipeline", "audit"],
]


@pytest.fixture(scope="module")
def guarded_url(tmp_path_factory):
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "secret").write_text("x" * 40)
    with ServerProcess(
        directory / "data", "--store", "memory", "--jwt-secret-file", str(directory / "secret")
    ) as server:
        yield server.url


@pytest.mark.parametrize("arguments", NEEDS_TOKEN, ids=" ".join)
def test_a_command_without_a_token_says_that_one_is_required(shell, guarded_url, arguments):
    done = shell.use(guarded_url)(*arguments)
    done.fails(4, f"mainstem: {arguments[0]}", f"{guarded_url} requires a token: ")
    for way in ("--token", "MAINSTEM_TOKEN", "mainstem context add"):
        assert way in done.errors


@pytest.mark.parametrize("arguments", [["stream", "ls"], ["stream", "create", "x"], ["sync", "submit", "-p", "a"]])
def test_a_refused_token_is_explained_with_the_reason_of_the_server(shell, guarded_url, arguments):
    done = shell.use(guarded_url)(*arguments, "--token", "nonsense", input="{}")
    done.fails(4, " ".join(arguments[:2]), "rejected the token (", "JWT", "--token")


def test_a_url_with_the_path_of_streams_is_recognised(shell, server):
    for url in (f"{server.url}/v1/stream", f"{server.url}/v1/stream/"):
        shell("stream", "ls", "--url", url).fails(2, "leave out /v1/stream", f"as in {server.url}\n")


@pytest.fixture
def web_server():
    """A web server that knows nothing of streams."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "arguments", [["stream", "ls"], ["log", "head"], ["stream", "create", "x"], ["subscription", "ls"]], ids=" ".join
)
def test_another_kind_of_server_is_recognised(shell, web_server, arguments):
    done = shell.use(web_server)(*arguments)
    assert done.code in (5, 8)
    done.fails(done.code, f"{' '.join(arguments[:2])}: {web_server} is not a Mainstem server", "check --url")


def test_an_unreachable_server_is_reported_after_waits_of_less_than_two_seconds(shell, free_port):
    shell.use(f"http://127.0.0.1:{free_port}")("stream", "ls").fails(
        3, f"cannot reach http://127.0.0.1:{free_port}: connection refused"
    )
    retries = Retries(attempts_max=limits.CLI_ATTEMPTS)
    assert sum(retries.delay(failures, lambda: 1.0) for failures in range(1, limits.CLI_ATTEMPTS)) < 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", "tail", "x"],
        ["stream", "watch", "x", "--offset", "-1"],
        ["log", "tail", "--stream", "x", "-f", "%v\\n"],
        ["sync", "tail", "-p", "room", "--since", "0", "-f", "%v\\n"],
    ],
    ids=" ".join,
)
def test_a_command_whose_server_goes_away_says_that_it_retries(shell, start_server, arguments):
    server = start_server("--store", "memory")
    shell.use(server.url)
    shell.ok("stream", "append", "x", "--create", "json", "-m", "1")
    shell.ok("sync", "submit", "-p", "room", "-m", '{"n":1}')
    command = shell.spawn(*arguments)
    command.stdout.readline()
    server.kill()
    assert command.stderr.readline().decode() == (f"mainstem: waiting for {server.url}; retrying (Ctrl-C stops)\n")
