"""The servers under torture: each is a process that can be killed, stopped and started again, behind a proxy."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mainstem.testing.forks import start_server
from mainstem.testing.server import ServerProcess
from mainstem.testing.torture.clocks import SteerableClock, follow_clock
from mainstem.testing.torture.proxy import Proxy

FLAGS = ("--long-poll-ms", "400", "--page-bytes", "20000", "--log-level", "warning", "--log-format", "json")
"""Short waits and small pages, so that much happens within one life, and no greeting at the start of each."""


class Node:
    """One server, across all its lives."""

    def __init__(self, name: str, directory: Path, store: str, sabotage: Callable[[], None] | None = None) -> None:
        """`sabotage` is called in every new process, to break the server itself; it must be picklable."""
        self.name = name
        self.clock = SteerableClock(directory / f"{name}.clock")
        self.proxy = Proxy()
        self.lives = 0
        self._process = ServerProcess(directory / "data", "--store", store, *FLAGS)
        self._process.launch = partial(start_server, prepare=partial(_prepare, self.clock.file, sabotage))

    async def open(self) -> None:
        await self.proxy.open()
        await self.start()

    async def close(self) -> None:
        self.proxy.close()
        await asyncio.to_thread(self._process.close)

    @property
    def address(self) -> tuple[str, int] | None:
        """Where the server listens in its current life; None while it is dead."""
        return self.proxy.target

    @property
    def stderr(self) -> str:
        return self._process.stderr

    async def start(self) -> None:
        await asyncio.to_thread(self._process.start)
        self.proxy.target = self._process.address
        self.lives += 1

    async def kill(self) -> None:
        """End the process with SIGKILL, even if it is stopped."""
        self.proxy.target = None
        await asyncio.to_thread(self._process.kill)

    async def terminate(self) -> None:
        """End the process in an orderly way."""
        self.proxy.target = None
        await asyncio.to_thread(self._process.terminate)

    def stop(self) -> None:
        """Freeze the process (SIGSTOP): its connections stay open, and nothing is answered."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)


def _prepare(clock: Path, sabotage: Callable[[], None] | None) -> None:
    follow_clock(clock)
    if sabotage is not None:
        sabotage()
