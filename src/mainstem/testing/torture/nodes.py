"""The servers under torture: each is a process that can be killed, stopped and started again, behind a proxy."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
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

    def __init__(
        self,
        name: str,
        directory: Path,
        store: str,
        prepare: Callable[[], None] | None = None,
        flags: Sequence[str] = FLAGS,
    ) -> None:
        """`prepare` is called in every new process, before the server starts; it must be picklable."""
        self.name = name
        self.clock = SteerableClock(directory / f"{name}.clock")
        self.proxy = Proxy()
        self.lives = 0
        self.start_s = 0.0
        """How long the last start took."""
        self._process = ServerProcess(directory / "data", "--store", store, *flags)
        self._process.launch = partial(start_server, prepare=partial(_prepare, self.clock.file, prepare))

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
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr(self) -> str:
        return self._process.stderr

    async def start(self) -> None:
        began_s = time.monotonic()
        await asyncio.to_thread(self._process.start)
        self.start_s = time.monotonic() - began_s
        self.proxy.target = self._process.address
        self.lives += 1

    async def kill(self) -> None:
        """End the process with SIGKILL, even if it is stopped."""
        self.proxy.target = None
        await asyncio.to_thread(self._process.kill)

    async def terminate(self) -> int:
        """End the process in an orderly way, and return its exit code."""
        self.proxy.target = None
        return await asyncio.to_thread(self._process.terminate)

    def stop(self) -> None:
        """Freeze the process (SIGSTOP): its connections stay open, and nothing is answered."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)


def _prepare(clock: Path, prepare: Callable[[], None] | None) -> None:
    follow_clock(clock)
    if prepare is not None:
        prepare()
