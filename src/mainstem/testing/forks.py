"""`mainstem ...` in processes that are forked from one that has already imported everything.

Importing the program takes longer than everything else a short command does, and a test run starts about a thousand of
them. Tests about the start itself (signals, terminals, pipes) start real processes.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from mainstem.cli import COMMANDS

_context = multiprocessing.get_context("forkserver")
_commands = [command.module for name, command in COMMANDS.items() if name != "pipeline"]
_imported_when_used = ["httpx2", "httpcore2", "mainstem.cli.stream_writes", "mainstem.cli.sync_session"]
_context.set_forkserver_preload([*_commands, *_imported_when_used, "mainstem.server.run", __name__])


class ForkedCommand:
    """A process that runs `mainstem` with these arguments on these file descriptors."""

    stdout: IO[bytes] | None = None

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """`prepare` is called in the new process before anything else; it must be picklable."""
        ends = [Connection(os.dup(number)) for number in (stdin, stdout, stderr)]
        self._process = _context.Process(target=_run, args=(list(arguments), dict(env), str(cwd), ends, prepare))
        self._process.start()
        for end in ends:
            end.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("mainstem", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has just ended


def start_server(
    arguments: Sequence[str],
    stderr: IO[bytes],
    env: Mapping[str, str],
    prepare: Callable[[], None] | None = None,
) -> ForkedCommand:
    """Start the server of a `ServerProcess`: assign this function to its `launch`."""
    reading, writing = os.pipe()
    try:
        with open(os.devnull, "rb") as nothing:
            command = ForkedCommand(
                ["serve", *arguments],
                env=env,
                cwd=Path.cwd(),
                stdin=nothing.fileno(),
                stdout=writing,
                stderr=stderr.fileno(),
                prepare=prepare,
            )
    finally:
        os.close(writing)
    command.stdout = os.fdopen(reading, "rb")
    return command


def run(
    arguments: Sequence[str], *, input: bytes, timeout: float, env: Mapping[str, str], cwd: Path
) -> tuple[int, bytes, bytes]:
    """Return the exit code of a command, its standard output, and its standard error."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        command = ForkedCommand(
            arguments, env=env, cwd=cwd, stdin=reading, stdout=output.fileno(), stderr=errors.fileno()
        )
        os.close(reading)
        feeder = threading.Thread(target=_feed, args=(writing, input))
        feeder.start()
        try:
            code = command.wait(timeout)
        finally:
            command.send_signal(signal.SIGKILL)
            feeder.join()
        return code, _read(output), _read(errors)


def _feed(pipe: int, data: bytes) -> None:
    try:
        with os.fdopen(pipe, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass  # the command has read as much as it wanted


def _read(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _run(
    arguments: list[str],
    environment: dict[str, str],
    directory: str,
    ends: list[Connection],
    prepare: Callable[[], None] | None,
) -> None:
    """In the new process, reproduce the state of a freshly started program."""
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.argv = ["mainstem", *arguments]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if prepare is not None:
        prepare()
    from mainstem.cli import main

    main(arguments, prog_name="mainstem")
