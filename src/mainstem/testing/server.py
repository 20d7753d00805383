"""A real server in its own process, which tests can stop, kill and start again on the same data."""

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
END_S_MAX = 2.0  # for a process that has closed its output and is about to end

SETTINGS = ("MAINSTEM_", "OTEL_")
"""How the variables begin that a server reads."""

PROGRAM = (sys.executable, "-c", "from mainstem.cli import main; main(prog_name='mainstem')")
"""The entry point of the `mainstem` script, run by the current interpreter."""
COMMAND = (*PROGRAM, "serve")


class ServerNotReady(Exception):
    """The server ended, or did not report that it was ready in time. The message contains its output."""


class RunningProcess(Protocol):
    """A started server process, such as a `subprocess.Popen`."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


def start_process(
    arguments: Sequence[str], stderr: IO[bytes], env: Mapping[str, str], *, command: Sequence[str] = COMMAND
) -> RunningProcess:
    """Start `mainstem serve` with these arguments in a new interpreter."""
    return subprocess.Popen(
        [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env
    )


class ServerProcess:
    """`mainstem serve` on a free port. The flags are those of the command: `ServerProcess(data, "--page-bytes", "1")`.

    `--data` is always passed, and `--port` is 0 unless the flags set it, so `url` may change with a restart.
    `environment` has further variables of the process.
    """

    launch = staticmethod(start_process)
    """The function that starts the process; a test suite that starts many servers can replace it with a faster one."""

    def __init__(self, data: Path | str, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.data = Path(data)
        self.environment = dict(environment or {})
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
        """Kill the process if it is still running, and discard its output."""
        if self.running:
            self.kill()
        self._close_stdout()
        self._stderr.close()

    # Lifecycle

    def spawn(self) -> None:
        """Start the process without waiting until it is ready."""
        if self.running:
            raise RuntimeError(f"the server is already running, as process {self.pid}")
        self._close_stdout()
        # Without the caller's settings, so that a test does the same on every machine.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        environment = kept | self.environment
        self._process = self.launch(["--port", "0", "--data", str(self.data), *self.flags], self._stderr, environment)

    def start(self) -> None:
        """Start the process, and return once it is ready."""
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
            raise ServerNotReady(
                f"the server ended with exit code {code}; its output: {said.decode(errors='replace')}{self.stderr}"
            )
        self.url = ready[1].decode()

    def restart(self) -> None:
        """Start the server again on the same data, after a clean shutdown if it is still running."""
        if self.running:
            self.terminate()
        self.start()

    def terminate(self, timeout_s: float = STOP_S_MAX) -> int:
        """Ask the server to stop (SIGTERM), wait for it, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> int:
        """Kill the server (SIGKILL), so that it cannot finish anything, and return its exit code."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def signal(self, number: int) -> None:
        if self._process is None:
            raise RuntimeError("the server was never started")
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S_MAX) -> int:
        """Wait until the server has ended, and return its exit code."""
        if self._process is None:
            raise RuntimeError("the server was never started")
        code = self._process.wait(timeout_s)
        self._close_stdout()
        return code

    def _close_stdout(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    # Properties

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
        """What the server has written to standard error so far, across all its starts."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")


def _read_until(pipe: IO[bytes], wanted: re.Pattern[bytes], timeout_s: float) -> bytes:
    """Return the output up to the end of the line that matches, or all of it if the pipe ends or the time is up."""
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
