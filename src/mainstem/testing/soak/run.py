"""One soak from beginning to end."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

import msgspec

from mainstem.log.store.sqlite.connections import STORE_NAME
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.history.violations import Violation
from mainstem.testing.soak.commands import Commands
from mainstem.testing.soak.crowd import STREAMS, Crowd
from mainstem.testing.soak.epochs import Epochs
from mainstem.testing.soak.lifetimes import Expiring, LifetimeWorker, Trimmed
from mainstem.testing.soak.overload import Overload, overload
from mainstem.testing.soak.samples import (
    Growth,
    Sample,
    TaskCounter,
    count_tasks_when_asked,
    measure_growth,
    take_sample,
)
from mainstem.testing.soak.webhooks import Receiver
from mainstem.testing.torture.connections import Connection
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.rounds import check_store, find_tracebacks

FLAGS = ("--long-poll-ms", "2000", "--log-level", "warning", "--log-format", "json", "--allow-local-webhooks")
RESTARTS_SHARE = 1 / 3
"""The share of the time with restarts. In the rest, one life shows whether the server grows."""
SAMPLE_EVERY_S = 5.0
LEFT_MAX = 10
"""How many more files and tasks than at its start a server may have when everybody has left."""
LIFETIME_SHARE = 0.1
"""Busy clients whose data expires or is trimmed."""


class Plan(msgspec.Struct, frozen=True):
    minutes: float
    seed: int
    idle: int
    busy: int
    spark: bool
    flood_s: float = 15.0
    leave_s: float = 120.0
    """How long the server may take to release what its clients used; workers that read the log stay for a minute."""


class Result(msgspec.Struct):
    """What happened in a soak."""

    plan: Plan
    calls: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """By kind and outcome."""
    epochs: int = 0
    restarts: int = 0
    connected: int = 0
    """The most idle connections at once."""
    looks: int = 0
    """How often a client looked whether a stream had expired or was trimmed in time."""
    webhooks: int = 0
    backups: int = 0
    jobs: int = 0
    """Rounds of Spark jobs."""
    growth: list[Growth] = msgspec.field(default_factory=list)
    flood: Overload | None = None
    violations: list[Violation] = msgspec.field(default_factory=list)


async def run_soak(directory: Path, plan: Plan, sabotage: Callable[[], None] | None = None) -> Result:
    """Run a soak in an empty directory. `sabotage` breaks the server, to show that the soak notices."""
    soak = Soak(directory, plan, sabotage)
    try:
        await soak.node.open()
        return await soak.run()
    finally:
        await soak.node.close()
        soak.receiver.close()


class Soak:
    """One server, and everything that is done to it."""

    def __init__(self, directory: Path, plan: Plan, sabotage: Callable[[], None] | None) -> None:
        self.plan = plan
        self.data = directory / "data"
        self.tasks = TaskCounter(directory / "tasks")
        port = _find_port()
        self.node = Node(
            "node", directory, "sqlite", partial(_prepare, self.tasks.file, sabotage), (*FLAGS, "--port", str(port))
        )
        self.receiver = Receiver(plan.seed)
        self.commands = Commands(directory, f"http://127.0.0.1:{port}")
        self.crowd = Crowd(self.node, plan.idle, plan.seed)
        lifetimes = max(1, round(plan.busy * LIFETIME_SHARE / 2))
        self.lifetimes: list[LifetimeWorker] = [
            kind(f"{kind.__name__.lower()}{number}", [self.node], Recorder(time.perf_counter), str(plan.seed))
            for kind in (Expiring, Trimmed)
            for number in range(lifetimes)
        ]
        self.epochs = Epochs(self.node, directory, plan.busy - 2 * lifetimes, plan.seed)
        self.samples: list[Sample] = []
        self.connected = 0

    async def run(self) -> Result:
        await self._create_streams()
        fresh = await self._sample()
        began_s = time.monotonic()
        seconds = self.plan.minutes * 60
        async with _beside(
            self.crowd.run(),
            self.commands.back_up(),
            *([self.commands.run_jobs()] if self.plan.spark else []),
            *(worker.run() for worker in self.lifetimes),
            self._keep_sampling(),
        ):
            await self.epochs.run(began_s + seconds * RESTARTS_SHARE, began_s + seconds)
        assert self.node.address is not None
        flood = await overload(self.node.address, self.plan.flood_s)
        leaks = await self._find_leaks(fresh)
        if self.plan.spark:
            await self.commands.audit()
        await self.node.terminate()
        return Result(
            plan=self.plan,
            calls=self.epochs.calls,
            epochs=self.epochs.finished,
            restarts=self.epochs.restarts,
            connected=self.connected,
            looks=sum(worker.looks for worker in self.lifetimes),
            webhooks=self.receiver.calls,
            backups=self.commands.backups,
            jobs=self.commands.rounds,
            growth=measure_growth(self.samples),
            flood=flood,
            violations=[
                *self.epochs.violations,
                *(violation for worker in self.lifetimes for violation in worker.violations),
                *self.commands.violations,
                *leaks,
                *await asyncio.to_thread(check_store, self.data / STORE_NAME),
                *find_tracebacks(self.node),
            ],
        )

    async def _create_streams(self) -> None:
        """Create what must be there before the first client."""
        assert self.node.address is not None
        connection = await Connection.open(self.node.address)
        try:
            for number in range(STREAMS):
                await connection.request("PUT", f"/v1/stream/quiet/{number}", {"Content-Type": "text/plain"})
            await self.receiver.subscribe(connection)
        finally:
            connection.close()

    # What the server uses

    async def _sample(self) -> Sample:
        return await take_sample(self.node.pid, self.node.lives, self.data, self.tasks)

    async def _keep_sampling(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            self.connected = max(self.connected, self.crowd.connected)
            if self.node.address is not None:
                try:
                    self.samples.append(await self._sample())
                except OSError:
                    pass  # the server is being restarted

    async def _find_leaks(self, fresh: Sample) -> list[Violation]:
        """Wait until the server has no more files and tasks than in the beginning, and return what it has kept."""
        deadline_s = time.monotonic() + self.plan.leave_s
        while True:
            left = await self._sample()
            kept = [
                Violation("leak", f"{before} {what} in the beginning, {after} when everybody had left")
                for what, before, after in (("files", fresh.files, left.files), ("tasks", fresh.tasks, left.tasks))
                if after > before + LEFT_MAX
            ]
            if not kept or time.monotonic() > deadline_s:
                return kept
            await asyncio.sleep(1)


def _find_port() -> int:
    """Return a free port, which stays the same across restarts, so that commands find the server."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _prepare(tasks: Path, sabotage: Callable[[], None] | None) -> None:
    count_tasks_when_asked(tasks)
    if sabotage is not None:
        sabotage()


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run endless work beside a block. The failure of either is the failure of both."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in work]
        yield
        for task in tasks:
            task.cancel()
