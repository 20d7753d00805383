"""What the tests of the command line share: a filled store, and the command itself as a process."""

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.testing.server import ServerProcess
from tests.cli.stores import make_store

COMMAND = [sys.executable, "-c", "from mainstem.cli import main; main(prog_name='mainstem')"]


class Shell:
    """Runs `mainstem ...` as a process, with contexts of its own and a server if one was chosen."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        self.spawned: list[subprocess.Popen] = []
        self.environment = clean | {"XDG_CONFIG_HOME": str(directory / "config"), "NO_PROXY": "*"}

    def use(self, url: str) -> "Shell":
        self.environment["MAINSTEM_URL"] = url
        return self

    def spawn(self, *arguments: str) -> subprocess.Popen:
        """A command that goes on, with pipes; it is ended with its test."""
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Whoever runs the tests in the background has SIGINT ignored, and processes inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.spawned.append(process)
        return process

    def __call__(self, *arguments: str, input: bytes | str = b"", timeout: float = 60) -> "Done":
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=data,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=self.environment,
            cwd=self.directory,
        )
        return Done(done.returncode, done.stdout, done.stderr.decode())

    def ok(self, *arguments: str, **options) -> str:
        """What a command prints that must succeed, and must have nothing to complain about."""
        done = self(*arguments, **options)
        assert (done.code, done.errors) == (0, "")
        return done.text


class Done:
    def __init__(self, code: int, output: bytes, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors

    @property
    def text(self) -> str:
        return self.output.decode()

    def fails(self, code: int, *said: str) -> None:
        """One clear line on standard error, and the code that the reference tells of."""
        assert self.code == code, (self.code, self.errors)
        assert self.errors.count("\n") == 1, self.errors
        for words in said:
            assert words in self.errors
        assert "Traceback" not in self.errors


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for process in shell.spawned:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # what was still to be written has nobody to read it


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that do no harm to it."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def mainstem(shell: Shell, server: ServerProcess) -> Shell:
    """The command, with that server as its own."""
    return shell.use(server.url)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A stream, or partition, of this test alone."""
    return f"{request.node.name}/{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("filled") / "data")


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A copy of the filled store, to be harmed."""
    directory = tmp_path / "store"
    directory.mkdir()
    return Path(shutil.copy(filled, directory / "mainstem.db"))
