"""Epochs: the traffic of busy clients, a minute at a time, each with its own streams, partitions and verdict."""

import asyncio
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from mainstem.testing.history.calls import decode_call, encode_call
from mainstem.testing.history.checker import check_history
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.history.violations import Violation
from mainstem.testing.soak.webhooks import find_missed_wakes
from mainstem.testing.torture.connections import Connection, Reply
from mainstem.testing.torture.events import PartitionReader, SyncWorker
from mainstem.testing.torture.log import LogReader, read_whole_log
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.rounds import classify
from mainstem.testing.torture.scope import Scope
from mainstem.testing.torture.streams import Closer, Producer, Reader, Tailer, Writer
from mainstem.testing.torture.workers import Worker

EPOCH_S = 60.0
PAUSE_S_MAX = 10.0
PADDINGS = (0, 0, 0, 30, 300)
"""Short messages: each is in the history as often as a client sees it."""
SHARES: tuple[tuple[type[Worker], float], ...] = (
    (Writer, 0.2),
    (Producer, 0.2),
    (Closer, 0.05),
    (Reader, 0.25),
    (Tailer, 0.15),
    (SyncWorker, 0.1),
    (PartitionReader, 0.05),
)
"""How many of the busy clients do what. There is one more, which reads the log."""


class Epochs:
    """One epoch after the other until the time is up."""

    def __init__(self, node: Node, directory: Path, clients: int, seed: int) -> None:
        self.node = node
        self.calls: Counter[tuple[str, str]] = Counter()
        """By kind and outcome."""
        self.finished = 0
        self.restarts = 0
        self.violations: list[Violation] = []
        self._directory = directory
        self._clients = clients
        self._seed = seed
        self._chance = Random(f"{seed} epochs")

    async def run(self, restart_until_s: float, until_s: float) -> None:
        """Run epochs up to one time on the monotonic clock, with restarts of the server up to another."""
        # A forked process would keep the connections of all clients open.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            async with asyncio.TaskGroup() as verdicts:
                while time.monotonic() < until_s:
                    file, scope = await self._run_epoch(
                        min(EPOCH_S, until_s - time.monotonic()), time.monotonic() < restart_until_s
                    )
                    verdicts.create_task(self._judge(pool, file, scope.after))

    async def _judge(self, pool: ProcessPoolExecutor, file: Path, after: int) -> None:
        self.violations += await asyncio.get_running_loop().run_in_executor(pool, check_file, file, after)

    async def _run_epoch(self, seconds: float, restarts: bool) -> tuple[Path, Scope]:
        """Return the file with the history of an epoch, and what it is about. Its streams are deleted afterwards."""
        number = self.finished
        scope = Scope(f"epoch{number}-", await self._find_head())
        recorder = Recorder(time.perf_counter)
        workers = self._hire(recorder, scope, number)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker.run()) for worker in workers]
            await asyncio.sleep(seconds / 2)
            if restarts:
                await self._restart()
            await asyncio.sleep(seconds / 2)
            for task in tasks:
                task.cancel()
        await read_whole_log(self.node, recorder, scope)
        self.violations += await find_missed_wakes(self.node, scope)
        await self._delete(scope)
        self.calls.update(map(classify, recorder.calls))
        self.finished += 1
        file = self._directory / f"epoch{number}.jsonl"
        with file.open("wb") as opened:
            opened.writelines(map(encode_call, recorder.calls))
        return file, scope

    def _hire(self, recorder: Recorder, scope: Scope, number: int) -> list[Worker]:
        kinds = [kind for kind, share in SHARES for _ in range(max(1, round(share * self._clients)))]
        workers: list[Worker] = []
        for index, kind in enumerate([*kinds, LogReader]):
            worker = kind(f"e{number}.{kind.__name__.lower()}{index}", [self.node], recorder, str(self._seed), scope)
            worker.pause_s_max = PAUSE_S_MAX
            worker.paddings = PADDINGS
            worker.through_proxy = 0.0
            workers.append(worker)
        return workers

    async def _restart(self) -> None:
        """End the server in an orderly way or by a kill, and start it again."""
        self.restarts += 1
        await (self.node.kill() if self._chance.random() < 0.5 else self.node.terminate())
        await self.node.start()

    async def _find_head(self) -> int:
        reply = await self._request("GET", "/v1/log?max_bytes=1&columns=committed_id")
        return int(reply.headers["log-head"])

    async def _delete(self, scope: Scope) -> None:
        for path in scope.streams:
            await self._request("DELETE", f"/v1/stream/{path}")

    async def _request(self, method: str, target: str) -> Reply:
        assert self.node.address is not None
        connection = await Connection.open(self.node.address)
        try:
            return await connection.request(method, target)
        finally:
            connection.close()


def check_file(file: Path, after: int) -> list[Violation]:
    """Check a history, and delete it if it is in order."""
    with file.open("rb") as lines:
        violations = check_history(map(decode_call, lines), after)
    if not violations:
        file.unlink()
    return violations
