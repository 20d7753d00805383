"""What `mainstem serve` prints when it starts, when it stops, and when it cannot start. Each is a real process."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.command_line import COMMAND, clean_environment
from tests.support.requirements import miss

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
READY = "Mainstem is ready on "
WAIT_S = 60.0


def serve(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a server that is expected to end by itself."""
    return subprocess.run(
        [*COMMAND, "serve", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env=clean_environment(**environment),
    )


def refused(*arguments: str, **environment: str) -> str:
    """Return the one line that a server prints which cannot start."""
    done = serve(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removesuffix("\n")


def start_and_stop(number: int, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a server until it is ready, send it a signal, and return everything that it printed."""
    command = [*COMMAND, "serve", "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**environment),
        # A shell that runs the tests in the background has SIGINT ignored, and processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith(READY), first
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, first + out, err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_with_code_0_and_a_word(tmp_path, number):
    done = start_and_stop(number, "--data", str(tmp_path / "data"))
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stderr.endswith("\nmainstem: stopped\n")


def test_the_ready_server_prints_requests_to_try(tmp_path):
    """The commands are run as they are printed."""
    if shutil.which("curl") is None:
        miss("curl", "install curl")
    data = tmp_path / "data"
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        found = re.fullmatch(rf"{READY}(http://127\.0\.0\.1:\d+) \(sqlite in {re.escape(str(data))}\)\n", ready)
        assert found is not None, ready
        lines = [process.stderr.readline() for _ in range(4)]
        assert lines[0] == "Try it from another terminal:\n"
        assert lines[3] == "Press Ctrl-C to stop the server.\n"
        create, read = (
            subprocess.run(line, shell=True, capture_output=True, text=True, check=True, env=clean_environment())
            for line in lines[1:3]
        )
        assert found[1] in lines[1]
        assert create.stdout.startswith("HTTP/1.1 201")
        assert json.loads(read.stdout) == [{"text": "hello"}]
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


def test_json_logs_hold_nothing_but_json(tmp_path):
    done = start_and_stop(
        signal.SIGTERM, "--data", str(tmp_path / "data"), "--log-format", "json", MAINSTEM_PROT="4437"
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("warning", "MAINSTEM_PROT is not a setting, and is ignored; did you mean MAINSTEM_PORT?"),
        ("info", "stopped"),
    ]


def test_an_unknown_variable_is_warned_about_and_those_of_other_programs_are_not(tmp_path):
    done = start_and_stop(
        signal.SIGTERM,
        "--data",
        str(tmp_path / "data"),
        MAINSTEM_LOG_LEVL="debug",
        MAINSTEM_URL="http://127.0.0.1:1",
        MAINSTEM_TEST_SEED="7",
        MAINSTEM_SPARK_MASTER="local[1]",
    )
    warnings = [line for line in done.stderr.splitlines() if "MAINSTEM_" in line]
    assert len(warnings) == 1
    assert "did you mean MAINSTEM_LOG_LEVEL?" in warnings[0]


def test_control_c_ends_make_serve_without_an_error_of_make(tmp_path):
    """On a terminal, Ctrl-C goes to make and to the server."""
    if shutil.which("make") is None:
        miss("make", "install make")
    programs = tmp_path / "bin"
    programs.mkdir()
    start = "import sys; from mainstem.cli import main; main(prog_name='mainstem')"
    (programs / "mainstem").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    (programs / "mainstem").chmod(0o755)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        arguments = f"--port 0 --data {tmp_path / 'data'}"
        command = ["make", "serve", "-o", ".venv/.serve", f"BIN={programs}", f"ARGS={arguments}"]
        os.execvpe("make", command, clean_environment())
    shown = b""
    deadline_s = time.monotonic() + WAIT_S
    try:
        interrupted = False
        while select.select([terminal], [], [], max(deadline_s - time.monotonic(), 0))[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # what Linux reports when the last process has closed the terminal
                break
            if not part:
                break
            shown += part
            if not interrupted and b"Press Ctrl-C" in shown:
                os.write(terminal, b"\x03")
                interrupted = True
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    said = shown.decode()
    assert "mainstem: stopped" in said
    assert "***" not in said
    assert "Error" not in said
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGINT)  # make ends itself with the signal that it got


def test_a_port_in_use_names_the_option(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--data", str(tmp_path / "data"), "--port", str(port))
    assert said == (
        f"mainstem: port {port} on 127.0.0.1 is in use; stop the other server, or choose another port with --port"
    )


def test_a_data_directory_that_is_a_file_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a directory")
    assert refused("--data", str(file)) == (
        f"mainstem: cannot use the data directory {file}: it is a file; choose another one with --data"
    )
    assert refused("--data", str(file / "data")) == (
        f"mainstem: cannot use the data directory {file / 'data'}: a part of its path is a file; "
        "choose another one with --data"
    )


def test_a_data_directory_that_cannot_be_written_is_named():
    """Nobody may create a directory there, not even root."""
    assert refused("--data", "/sys/mainstem") == (
        "mainstem: cannot use the data directory /sys/mainstem: this user may not write to it; choose another one with "
        "--data"
    )


@pytest.mark.parametrize("kept", [4096, 3 * 4096, 12 * 4096], ids=["at the start", "soon", "when streams are read"])
def test_a_corrupt_store_names_check_and_repair(start_server, kept):
    """It may be noticed when the file is opened, or only when the background work reads it."""
    server = start_server()
    for number in range(50):
        httpx2.put(f"{server.url}/v1/stream/{number}", content=b"x" * 2_000, trust_env=False)
    assert server.terminate() == 0
    path = server.data / "mainstem.db"
    good = path.read_bytes()
    path.write_bytes(good[:kept] + b"\xa5" * (len(good) - kept))
    said = refused("--data", str(server.data))
    assert str(path) in said
    assert said.endswith(
        "the checksum of a page is wrong; run `mainstem check` for details, then `mainstem repair` or `mainstem "
        "restore`"
    )


def test_a_locked_store_says_that_one_process_may_use_it(start_server):
    first = start_server()
    assert refused("--data", str(first.data)) == (
        f"mainstem: the data directory {first.data} is in use by process {first.pid}. Only one process may use a data "
        "directory: run one worker, stop the other process, or choose another data directory."
    )


def test_a_mistake_in_the_file_is_shown_with_file_and_line(tmp_path):
    config = tmp_path / "mainstem.toml"
    config.write_text('data = "./log"\nprot = 4437\n')
    done = serve("--config", str(config))
    assert done.returncode == 2
    assert f"{config}, line 2: there is no setting 'prot'; did you mean port?" in done.stderr
    config.write_text('port = "http"\n')
    done = serve("--config", str(config))
    assert f"{config}, line 1: port must be a whole number from 0 to 65535, not 'http'" in done.stderr
