"""`mainstem pipeline ...` as a process, to be run to its end or killed with all that it has started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMAND = [sys.executable, "-c", "from mainstem.cli import main; main(prog_name='mainstem')", "pipeline"]
WAIT_S_MAX = 300  # a busy machine may take a minute to start Java


class Done(NamedTuple):
    code: int
    text: str
    errors: str

    @property
    def complaints(self) -> str:
        """What it said on standard error, but for that it waited for a server that comes back slowly."""
        lines = self.errors.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("mainstem: waiting for http"))

    @property
    def summary(self) -> dict:
        """What --json printed."""
        return json.loads(self.text)


class Commands:
    """Runs jobs in a directory of their own, so that what they keep by default is there too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        self.environment = kept | {"NO_PROXY": "*", "XDG_CONFIG_HOME": str(directory / "config")}
        self._started: list[Running] = []

    def close(self) -> None:
        """End what a failed test has left running."""
        for running in self._started:
            running.kill()

    def spawn(self, *arguments: object) -> "Running":
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a group of its own: the driver, and its Java
        )
        self._started.append(Running(process))
        return self._started[-1]

    def __call__(self, *arguments: object) -> Done:
        return self.spawn(*arguments).wait()

    def ok(self, *arguments: object) -> dict:
        """The summary of a job that must succeed, and say nothing else."""
        done = self(*arguments, "--json")
        assert (done.code, done.errors) == (0, ""), done
        return done.summary


class Running:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._done: Done | None = None

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """SIGKILL to the whole group: nobody in it has a chance to finish anything."""
        if self._done is not None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()

    def wait(self) -> Done:
        if self._done is None:
            text, errors = self.process.communicate(timeout=WAIT_S_MAX)
            self._done = Done(self.process.returncode, text.decode(), errors.decode())
        return self._done
