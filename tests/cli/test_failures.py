"""A server that is away, refuses or restarts, and people who press Ctrl-C: one line, one code, never a stack trace."""

import json
import signal
import socket
import subprocess
import sys

import pytest

from mainstem.cli.failures import ExitCode, explain
from mainstem.testing.server import ServerProcess


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def own_server(tmp_path, free_port):
    """A server that keeps its address over restarts."""
    with ServerProcess(tmp_path / "data", "--port", str(free_port)) as server:
        yield server


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", "ls"],
        ["stream", "append", "x", "-m", "data"],
        ["stream", "read", "x"],
        ["stream", "tail", "x"],
        ["stream", "watch", "x"],
        ["sync", "submit", "-p", "room", "-m", "{}"],
        ["sync", "tail", "-p", "room"],
        ["log", "tail", "--after", "0"],
        ["log", "tail", "--after", "0", "--no-follow"],
        ["subscription", "get", "x"],
        ["bench"],
    ],
)
def test_a_server_that_is_not_there_is_told(shell, free_port, arguments):
    shell.use(f"http://127.0.0.1:{free_port}")
    done = shell(*arguments, input="data")
    done.fails(3, str(free_port), "mainstem serve", "--url")


def test_verbose_shows_where_a_fault_is_from(shell, free_port):
    shell.use(f"http://127.0.0.1:{free_port}")
    for arguments in (["stream", "ls", "--verbose"], ["--verbose", "stream", "ls"]):
        done = shell(*arguments)
        assert done.code == 3
        assert "Traceback" in done.errors
        assert done.errors.splitlines()[-1].startswith("mainstem: GET /v1/streams")


def test_something_else_than_a_server_is_told(shell):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shell.use(f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = shell.spawn("stream", "ls")
        for _ in range(3):  # the attempts
            connection, _ = silent.accept()
            connection.recv(4096)
            connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            connection.close()
        assert command.wait(30) == 3
        assert command.stderr.read().count(b"\n") == 1


def test_a_token_is_asked_for_checked_and_sent(shell, start_server, tmp_path):
    shell.ok("token", "--new-secret", str(tmp_path / "secret"))
    server = start_server("--store", "memory", "--jwt-secret-file", str(tmp_path / "secret"))
    shell.use(server.url)
    shell("stream", "ls").fails(4, "--token", "MAINSTEM_TOKEN")
    shell("stream", "read", "x", "--token", "nonsense").fails(4, "valid token")
    shell("sync", "pull", "-p", "room").fails(4, "token")
    make = ["token", "--secret-file", str(tmp_path / "secret"), "--client-id", "ada"]
    reader = shell.ok(*make, "--read", "x", "--partition", "room").strip()
    shell("stream", "create", "x", "--token", reader).fails(4, "does not allow")
    shell("log", "head", "--token", reader).fails(4, "log/head")
    shell("sync", "pull", "-p", "other", "--token", reader).fails(4, "forbidden")
    admin = shell.ok(*make, "--admin").strip()
    shell.environment["MAINSTEM_TOKEN"] = admin
    shell.ok("stream", "append", "x", "--create", "text", "-m", "data")
    assert shell.ok("stream", "read", "x", "--token", reader) == "data"
    shell.ok("sync", "submit", "-p", "room", "-m", "{}")  # the client's id comes from the token
    assert json.loads(shell.ok("sync", "pull", "-p", "room", "--json"))["client_id"] == "ada"


@pytest.mark.slow
def test_an_append_survives_a_restart_and_stores_each_line_once(shell, own_server):
    shell.use(own_server.url)
    shell.ok("stream", "create", "x", "--type", "json")
    tail = shell.spawn("stream", "tail", "x")
    append = shell.spawn("stream", "append", "x", "--json")
    for number in range(6):
        if number % 2:
            own_server.kill()
        append.stdin.write(b"%d\n" % number)
        append.stdin.flush()
        if number % 2:
            own_server.start()
        line = tail.stdout.readline()  # it follows over the same restarts
        assert line == b"%d\n" % number, tail.stderr.read()
    append.stdin.close()
    assert append.wait(60) == 0
    assert json.loads(append.stdout.read())["messages"] == 6
    assert shell.ok("stream", "read", "x") == "".join(f"{n}\n" for n in range(6))


@pytest.mark.slow
def test_live_readers_of_the_log_sets_and_partitions_survive_a_restart(shell, own_server):
    shell.use(own_server.url)
    shell.ok("stream", "append", "x", "--create", "text", "-m", "first\n")
    watch = shell.spawn("stream", "watch", "x", "--offset", "-1")
    log = shell.spawn("log", "tail", "--stream", "x")
    sync = shell.spawn("sync", "tail", "-p", "room", "--since", "0")
    shell.ok("sync", "submit", "-p", "room", "-m", '{"n":1}')
    assert watch.stdout.readline() == b"x first\n"
    assert log.stdout.readline().endswith(b" x first\n")
    assert sync.stdout.readline().endswith(b' {"n":1}\n')
    own_server.kill()
    own_server.start()
    shell.ok("stream", "append", "x", "-m", "second\n")
    shell.ok("sync", "submit", "-p", "room", "-m", '{"n":2}')
    assert watch.stdout.readline() == b"x second\n"
    assert log.stdout.readline().endswith(b" x second\n")
    assert sync.stdout.readline().endswith(b' {"n":2}\n')
    for command in (watch, log, sync):
        command.send_signal(signal.SIGINT)
        assert (command.wait(30), command.stderr.read()) == (130, b"")


def interrupt(process) -> int:
    """Ctrl-C, and again after a while: one that comes within a finaliser is lost in any Python program."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(6)
        except subprocess.TimeoutExpired:
            pass
    return process.wait(0)


def test_an_interrupted_append_tells_what_is_stored(mainstem, path):
    mainstem.ok("stream", "create", path, "--type", "json")
    tail = mainstem.spawn("stream", "tail", path)
    append = mainstem.spawn("stream", "append", path)
    append.stdin.write(b"1\n2\n")
    append.stdin.flush()
    assert tail.stdout.readline() == b"1\n"
    assert tail.stdout.readline() == b"2\n"
    # Its reply may still be on the way; the third message says that it was taken in.
    append.stdin.write(b"3\n")
    append.stdin.flush()
    assert tail.stdout.readline() == b"3\n"
    assert interrupt(append) == 130
    said = append.stderr.read().decode()
    assert said.startswith("mainstem: interrupted. The first ")
    assert "messages are stored, up to offset" in said
    assert said.count("\n") == 1


def test_a_stream_that_is_deleted_ends_its_tail(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", "-m", "1")
    tail = mainstem.spawn("stream", "tail", path)
    assert tail.stdout.readline() == b"1\n"
    mainstem.ok("stream", "rm", path)
    assert tail.wait(30) == 5
    assert tail.stderr.read().count(b"\n") == 1


def test_a_fault_of_the_program_itself_is_one_line_too(shell, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mainstem").write_text("not a directory")
    shell("stream", "ls").fails(7, "Not a directory")
    code = (
        "from mainstem import cli; from mainstem.cli import addresses\n"
        "def broken(*a): raise KeyError('surprise')\n"
        "addresses.find_address = broken\n"
        "cli.main(['stream', 'ls'], prog_name='mainstem')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=shell.environment, check=False)
    assert done.returncode == ExitCode.BUG
    assert done.stderr == (
        "mainstem: a fault of mainstem itself (KeyError: 'surprise'); please report it, with what --verbose shows\n"
    )


@pytest.mark.parametrize("package", ["pyspark", "pyarrow.compute", "deltalake"])
def test_a_job_without_spark_says_what_to_install(package):
    failure = explain(ModuleNotFoundError(f"No module named {package!r}", name=package))
    assert (failure.exit_code, "mainstem[spark]" in failure.message) == (7, True)


def test_a_missing_module_of_ours_is_a_fault_of_ours():
    assert explain(ModuleNotFoundError("No module named 'mainstem.x'", name="mainstem.x")).exit_code == 70
