"""A server that is unreachable, refuses or restarts, and Ctrl-C: one line, one exit code, never a stack trace."""

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
    """A server that keeps its address across restarts."""
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
def test_an_unreachable_server_is_reported(shell, free_port, arguments):
    shell.use(f"http://127.0.0.1:{free_port}")
    done = shell(*arguments, input="data")
    done.fails(3, str(free_port), "mainstem serve", "--url")


def test_verbose_shows_where_an_error_comes_from(shell, free_port):
    shell.use(f"http://127.0.0.1:{free_port}")
    for arguments in (["stream", "ls", "--verbose"], ["--verbose", "stream", "ls"]):
        done = shell(*arguments)
        assert done.code == 3
        assert "Traceback" in done.errors
        assert done.errors.splitlines()[-1].startswith("mainstem: cannot reach http://127.0.0.1:")


def test_a_peer_that_is_not_a_server_is_reported(shell):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shell.use(f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = shell.spawn("stream", "ls")
        for _ in range(3):  # one connection per attempt
            connection, _ = silent.accept()
            connection.recv(4096)
            connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            connection.close()
        assert command.wait(30) == 3
        assert command.stderr.read().count(b"\n") == 1


def test_a_token_is_required_checked_and_sent(shell, start_server, tmp_path):
    shell.ok("token", "--new-secret", str(tmp_path / "secret"))
    server = start_server("--store", "memory", "--jwt-secret-file", str(tmp_path / "secret"))
    shell.use(server.url)
    shell("stream", "ls").fails(4, "--token", "MAINSTEM_TOKEN")
    shell("stream", "read", "x", "--token", "nonsense").fails(4, "stream read", "rejected the token", "MAINSTEM_TOKEN")
    make = ["token", "--secret-file", str(tmp_path / "secret"), "--client-id", "ada"]
    reader = shell.ok(*make, "--read", "x", "--partition", "room").strip()
    shell("stream", "create", "x", "--token", reader).fails(4, "mainstem: x: ", "ask for a token that allows it")
    shell("log", "head", "--token", reader).fails(4, "log head: ")
    shell("sync", "pull", "-p", "other", "--token", reader).fails(4, "forbidden")
    admin = shell.ok(*make, "--admin").strip()
    shell.environment["MAINSTEM_TOKEN"] = admin
    shell.ok("stream", "append", "x", "--create", "text", "-m", "data")
    assert shell.ok("stream", "read", "x", "--token", reader) == "data"
    shell.ok("sync", "submit", "-p", "room", "-m", "{}")  # the client id comes from the token
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
        line = tail.stdout.readline()  # the tail follows across the same restarts
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
        assert command.wait(30) == 130
        notices = command.stderr.read().decode().splitlines()
        assert all(line.startswith(f"mainstem: waiting for {own_server.url}") for line in notices)


def interrupt(process) -> int:
    """Press Ctrl-C, and again after a while: a signal during a finaliser is lost in any Python program."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(6)
        except subprocess.TimeoutExpired:
            pass
    return process.wait(0)


def test_an_interrupted_append_reports_what_is_stored(mainstem, path):
    mainstem.ok("stream", "create", path, "--type", "json")
    tail = mainstem.spawn("stream", "tail", path)
    append = mainstem.spawn("stream", "append", path)
    append.stdin.write(b"1\n2\n")
    append.stdin.flush()
    assert tail.stdout.readline() == b"1\n"
    assert tail.stdout.readline() == b"2\n"
    # Its reply may still be in transit; the third message shows that it was processed.
    append.stdin.write(b"3\n")
    append.stdin.flush()
    assert tail.stdout.readline() == b"3\n"
    assert interrupt(append) == 130
    said = append.stderr.read().decode()
    assert said.startswith("mainstem: interrupted. The first ")
    assert "messages are stored, up to offset" in said
    assert said.count("\n") == 1


def test_deleting_a_stream_ends_its_tail(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", "-m", "1")
    tail = mainstem.spawn("stream", "tail", path)
    assert tail.stdout.readline() == b"1\n"
    mainstem.ok("stream", "rm", path)
    assert tail.wait(30) == 5
    assert tail.stderr.read().count(b"\n") == 1


def test_an_error_of_the_program_itself_is_reported_in_one_line_too(shell, tmp_path):
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
        "mainstem: this is a bug in mainstem (KeyError: 'surprise'): please report it with the output of --verbose\n"
    )


@pytest.mark.parametrize("package", ["pyspark", "pyarrow.compute", "deltalake"])
def test_a_job_without_spark_names_what_to_install(package):
    failure = explain(ModuleNotFoundError(f"No module named {package!r}", name=package))
    assert (failure.exit_code, "mainstem[spark]" in failure.message) == (7, True)


def test_a_missing_module_of_our_own_is_an_internal_error():
    assert explain(ModuleNotFoundError("No module named 'mainstem.x'", name="mainstem.x")).exit_code == 70
