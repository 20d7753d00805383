"""`mainstem ...` as a process: run to its end, or killed together with all processes that it started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mainstem.testing import forks

# The same entry point as the `mainstem` script, run by this interpreter.
COMMAND = [sys.executable, "-c", "from mainstem.cli import main; main(prog_name='mainstem')"]
JOB_S_MAX = 300  # a busy machine may take a minute to start Java


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without the developer's own settings, and without a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    return kept | {"NO_PROXY": "*"} | more


class Done:
    """A command that has ended."""

    def __init__(self, code: int, output: bytes, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors

    def __repr__(self) -> str:
        return f"Done({self.code}, {self.output!r}, {self.errors!r})"

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def summary(self) -> dict[str, Any]:
        """The output of --json."""
        summary: dict[str, Any] = json.loads(self.output)
        return summary

    @property
    def complaints(self) -> str:
        """The standard error without the notice that the command is waiting for a server to come back."""
        lines = self.errors.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("mainstem: waiting up to"))

    def fails(self, code: int, *said: str) -> None:
        """Require one clear line on standard error, and the exit code that the reference documents."""
        assert self.code == code, (self.code, self.errors)
        assert self.errors.count("\n") == 1, self.errors
        for words in said:
            assert words in self.errors
        assert "Traceback" not in self.errors


class Shell:
    """Runs `mainstem ...` in a directory, with its own contexts and, if one was chosen, a server."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = clean_environment(XDG_CONFIG_HOME=str(directory / "config"))
        self.spawned: list[subprocess.Popen[bytes]] = []

    def use(self, url: str) -> "Shell":
        self.environment["MAINSTEM_URL"] = url
        return self

    def spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command that keeps running, with pipes; it is killed at the end of the test."""
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A test run in the background has SIGINT ignored, and its child processes inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.spawned.append(process)
        return process

    def __call__(self, *arguments: str, input: bytes | str = b"", timeout: float = 60) -> Done:
        data = input.encode() if isinstance(input, str) else input
        code, output, errors = forks.run(
            arguments, input=data, timeout=timeout, env=self.environment, cwd=self.directory
        )
        return Done(code, output, errors.decode())

    def ok(self, *arguments: str, **options: Any) -> str:
        """Return the output of a command that must succeed and write nothing to standard error."""
        done = self(*arguments, **options)
        assert (done.code, done.errors) == (0, "")
        return done.text

    def close(self) -> None:
        for process in self.spawned:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    try:
                        pipe.close()
                    except BrokenPipeError:
                        pass  # nobody reads the output that was still to be written


class PipelineShell:
    """Runs `mainstem pipeline ...` in a directory, which also receives the files that jobs keep by default."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = clean_environment(XDG_CONFIG_HOME=str(directory / "config"))
        self._started: list[RunningJob] = []

    def close(self) -> None:
        """Kill the jobs that a failed test has left running."""
        for running in self._started:
            running.kill()

    def spawn(self, *arguments: object) -> "RunningJob":
        process = subprocess.Popen(
            [*COMMAND, "pipeline", *map(str, arguments)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a process group of its own: the driver and its Java
        )
        self._started.append(RunningJob(process))
        return self._started[-1]

    def __call__(self, *arguments: object) -> Done:
        return self.spawn(*arguments).wait()

    def ok(self, *arguments: object) -> dict[str, Any]:
        """Return the summary of a job that must succeed and print nothing else."""
        done = self(*arguments, "--json")
        assert (done.code, done.errors) == (0, ""), done
        return done.summary


class RunningJob:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._done: Done | None = None

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def ending(self) -> Done | None:
        """Return how the job ended, or None while it runs: meant for the `unless` of a wait for the job's work."""
        return None if self.running else self.wait()

    def kill(self) -> None:
        """Send SIGKILL to the whole group: no process in it can finish anything."""
        if self._done is not None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()

    def wait(self) -> Done:
        if self._done is None:
            output, errors = self.process.communicate(timeout=JOB_S_MAX)
            self._done = Done(self.process.returncode, output, errors.decode())
        return self._done
