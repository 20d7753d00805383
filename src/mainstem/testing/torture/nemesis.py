"""The nemesis: it chooses faults by the seed. Every node has its own, and so has the database."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.server import ServerNotReady
from mainstem.testing.torture.nodes import Node

LIFE_S = (0.01, 0.2)
"""How long a server works between two faults. On a busy machine, where its start took longer than `START_S`, it works
longer in proportion: otherwise clients would get no answers."""
START_S = 0.5
STOP_S = (0.01, 0.6)
STALL_S = (0.01, 0.4)
DATABASE_LIFE_S = (2.0, 8.0)
CLOCK_S = 24 * 3600.0
"""How far a clock may be wrong, in either direction."""

WEIGHTS = {"kill": 70, "stop": 6, "cut": 8, "stall": 4, "lose replies": 4, "clock": 8}
DATABASE_SIGNALS = {"restart database": signal.SIGINT, "crash database": signal.SIGQUIT}


class Nemesis:
    """Attacks nodes, and leaves all of them running when `run` returns."""

    def __init__(self, nodes: Sequence[Node], seed: str, postgres: PostgresProcess | None = None) -> None:
        self.nodes = nodes
        self.seed = seed
        self.postgres = postgres
        self.faults: Counter[str] = Counter()
        self._restarts_begun = self._restarts_done = 0

    @property
    def kills(self) -> int:
        return self.faults["kill"]

    async def run(self, enough: Callable[[], bool]) -> None:
        """Attack until it is enough."""
        async with asyncio.TaskGroup() as group:
            for node in self.nodes:
                group.create_task(self._attack_node(node, Random(f"{self.seed} nemesis of {node.name}"), enough))
            if self.postgres is not None:
                group.create_task(self._attack_database(self.postgres, Random(f"{self.seed} nemesis"), enough))

    async def _attack_node(self, node: Node, chance: Random, enough: Callable[[], bool]) -> None:
        while not enough():
            await asyncio.sleep(chance.uniform(*LIFE_S) * max(1.0, node.start_s / START_S))
            (fault,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            self.faults[fault] += 1
            match fault:
                case "kill":
                    await node.kill()
                    await self._start(node)
                case "stop":
                    await self._stop(node, chance)
                case "cut":
                    node.proxy.cut(chance)
                case "stall":
                    await node.proxy.stall(chance, chance.uniform(*STALL_S))
                case "lose replies":
                    await node.proxy.lose_replies(chance, chance.uniform(*STALL_S))
                case "clock":
                    node.clock.jump(chance.choice((0.0, chance.uniform(-CLOCK_S, CLOCK_S))))

    async def _start(self, node: Node) -> None:
        """Start a node, and again if the database was restarted meanwhile: a server that was connected then ends."""
        while True:
            done = self._restarts_done
            try:
                return await node.start()
            except ServerNotReady:
                if self._restarts_begun == done:
                    raise

    async def _stop(self, node: Node, chance: Random) -> None:
        """Freeze a node for a while. Sometimes it is killed before it can go on."""
        node.stop()
        await asyncio.sleep(chance.uniform(*STOP_S))
        if chance.random() < 0.2:
            self.faults["kill"] += 1
            await node.kill()
            await self._start(node)
        else:
            node.resume()

    async def _attack_database(self, postgres: PostgresProcess, chance: Random, enough: Callable[[], bool]) -> None:
        while not enough():
            await asyncio.sleep(chance.uniform(*DATABASE_LIFE_S))
            fault = chance.choice(list(DATABASE_SIGNALS))
            self.faults[fault] += 1
            self._restarts_begun += 1
            await asyncio.to_thread(postgres.restart, DATABASE_SIGNALS[fault])
            self._restarts_done += 1
