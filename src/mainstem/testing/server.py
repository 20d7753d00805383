"""A real server in a process of its own, to be stopped, killed and started again on the same data."""

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

READY = re.compile(rb"Mainstem is ready on (\S+)")
START_S_MAX = 30.0
STOP_S_MAX = 30.0
END_S_MAX = 2.0  # for a process that has closed its output, and is about to end

# The same entry point as the `mainstem` script, found by this very interpreter.
COMMAND = (sys.executable, "-c", "from mainstem.cli import main; main(prog_name='mainstem')", "serve")


class ServerNotReady(Exception):
    """The server ended, or said nothing, before it was ready. The message holds what it wrote."""


class RunningProcess(Protocol):
    """What a server is started as; `subprocess.Popen` is one."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


def start_process(
    arguments: Sequence[str], stderr: IO[bytes], env: Mapping[str, str], *, command: Sequence[str] = COMMAND
) -> RunningProcess:
    """Start `mainstem serve` with these arguments, as the `mainstem` script does."""
    return subprocess.Popen(
        [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env
    )


class ServerProcess:
    """`mainstem serve` on a free port. Flags are those of the command line: `ServerProcess(data, "--page-bytes", "1")`.

    `--data` is always given, and `--port` is 0 unless the flags say otherwise, so `url` may change with a restart.
    """

    launch = staticmethod(start_process)
    """How the process is started; a test suite that starts very many may have a faster way."""

    def __init__(self, data: Path | str, *flags: str) -> None:
        self.data = Path(data)
        self.flags = flags
        self.url = ""
        self._process: RunningProcess | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process if it still runs, and forget what it wrote."""
        if self.running:
            self.kill()
        self._close_stdout()
        self._stderr.close()

    # Its life

    def spawn(self) -> None:
        """Start the process without waiting until it is ready."""
        if self.running:
            raise RuntimeError(f"process {self.pid} still runs")
        self._close_stdout()
        # Settings from outside would make the same test mean different things on different machines.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        self._process = self.launch(["--port", "0", "--data", str(self.data), *self.flags], self._stderr, environment)

    def start(self) -> None:
        """Start the process, and return when it serves."""
        self.spawn()
        assert self._process is not None
        assert self._process.stdout is not None
        said = _read_until(self._process.stdout, READY, START_S_MAX)
        ready = READY.search(said)
        if ready is None:
            try:
                code = self.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                code = self.kill()
            raise ServerNotReady(f"exit code {code}, it said: {said.decode(errors='replace')}{self.stderr}")
        self.url = ready[1].decode()

    def restart(self) -> None:
        """Serve the same data again; a server that still runs is stopped in an orderly way first."""
        if self.running:
            self.terminate()
        self.start()

    def terminate(self, timeout_s: float = STOP_S_MAX) -> int:
        """Ask it to stop (SIGTERM), wait until it has, and give the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> int:
        """SIGKILL: it has no chance to finish anything."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def signal(self, number: int) -> None:
        if self._process is None:
            raise RuntimeError("the server was never started")
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S_MAX) -> int:
        """The exit code, once it has ended."""
        if self._process is None:
            raise RuntimeError("the server was never started")
        code = self._process.wait(timeout_s)
        self._close_stdout()
        return code

    def _close_stdout(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    # What is to be known of it

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server was never started")
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def stderr(self) -> str:
        """What it wrote there so far, in all of its lives."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")


def _read_until(pipe: IO[bytes], wanted: re.Pattern[bytes], timeout_s: float) -> bytes:
    """Everything up to and with the line that matches, or what there was when the pipe or the time ended."""
    deadline_s = time.monotonic() + timeout_s
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not (wanted.search(said) and said.endswith(b"\n")):
            if not selector.select(deadline_s - time.monotonic()):
                break
            part = os.read(pipe.fileno(), 4096)
            if not part:
                break
            said += part
    return said
