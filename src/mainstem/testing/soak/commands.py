"""Commands of `mainstem` that run beside the server: backups, and jobs on Spark."""

import asyncio
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path

from mainstem.testing.history.violations import Violation
from mainstem.testing.server import PROGRAM

BACKUP_EVERY_S = 120.0
JOB_EVERY_S = 30.0
KEPT_AGE = "3m"
"""How long events are kept, which is longer than an epoch."""
OUTPUT_SHOWN = 3_000
STOP_S_MAX = 60.0

POLICIES = """\
[[policy]]
name = "everything"
partitions = "*"
max_age = "{age}"
require_archive = "{archive}"
"""


class Commands:
    """Runs commands in one directory, and notes those that fail."""

    def __init__(self, directory: Path, url: str) -> None:
        self.violations: list[Violation] = []
        self.backups = 0
        self.rounds = 0
        """Rounds of Spark jobs."""
        self._directory = directory
        self._url = url
        self._archive = directory / "archive"

    async def run(self, *arguments: str) -> bool:
        """Run a command to its end, and return whether it succeeded."""
        process = await self._start(*arguments)
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        return self._judge(arguments, process.returncode, output)

    async def back_up(self) -> None:
        """Take one backup after the other. Each is verified, and replaces the last one."""
        file = str(self._directory / "backup.db")
        while True:
            await asyncio.sleep(BACKUP_EVERY_S)
            if await self.run("backup", file, "--data", str(self._directory / "data"), "--force"):
                self.backups += 1

    async def run_jobs(self) -> None:
        """Archive the log, and prune what is archived and old, again and again."""
        policies = self._directory / "retention.toml"
        policies.write_text(POLICIES.format(age=KEPT_AGE, archive=self._archive))
        await self.run(*self._job("archive", str(self._archive), "--accept-loss"))  # retention looks for the table
        async with asyncio.TaskGroup() as group:
            group.create_task(
                self._repeat(self._job("archive", str(self._archive), "--accept-loss", "--every", str(JOB_EVERY_S)))
            )
            group.create_task(self._repeat(self._job("retain", str(policies), "--every", str(JOB_EVERY_S))))

    async def audit(self) -> None:
        """Archive the rest of the log, and compare the archive with it."""
        await self.run(*self._job("archive", str(self._archive), "--accept-loss"))
        await self.run(*self._job("audit", "--archive", str(self._archive)))

    def _job(self, name: str, *arguments: str) -> tuple[str, ...]:
        return (
            "pipeline", name, *arguments, "--url", self._url, "--json", "--master", "local[1]",
            "--checkpoint", str(self._directory / f"{name}-checkpoint"),
        )  # fmt: skip

    async def _repeat(self, arguments: tuple[str, ...]) -> None:
        """Run a job that ends only when it is stopped, and count its rounds."""
        process = await self._start(*arguments)
        assert process.stdout is not None
        output = b""
        try:
            while line := await process.stdout.readline():
                output = output[-OUTPUT_SHOWN:] + line
                self.rounds += line.startswith(b"{")
            self._judge(arguments, await process.wait() or -1, output)
        except asyncio.CancelledError:
            await _stop(process)
            raise

    async def _start(self, *arguments: str) -> Process:
        return await asyncio.create_subprocess_exec(
            *PROGRAM, *arguments, stdout=PIPE, stderr=STDOUT, cwd=self._directory
        )

    def _judge(self, arguments: tuple[str, ...], code: int | None, output: bytes) -> bool:
        if code:
            text = output[-OUTPUT_SHOWN:].decode(errors="replace")
            self.violations.append(Violation("command failed", f"mainstem {' '.join(arguments)}: {code}\n{text}"))
        return not code


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.communicate(), STOP_S_MAX)
        except TimeoutError:
            process.kill()
            await process.communicate()
