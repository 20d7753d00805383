"""The nemesis: it chooses faults by the seed, and carries them out one after the other."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.torture.nodes import Node

LIFE_S = (0.02, 0.25)
"""How long the servers work between two faults."""
STOP_S = (0.02, 0.6)
STALL_S = (0.02, 0.4)
CLOCK_S = 24 * 3600.0
"""How far a clock may be wrong, in either direction."""

WEIGHTS = {"kill": 60, "stop": 8, "cut": 12, "stall": 6, "lose replies": 6, "clock": 8}
DATABASE_WEIGHTS = {"restart database": 2, "crash database": 2}


class Nemesis:
    """Attacks nodes, and leaves all of them running when `run` returns."""

    def __init__(self, nodes: Sequence[Node], chance: Random, postgres: PostgresProcess | None = None) -> None:
        self.nodes = nodes
        self.chance = chance
        self.postgres = postgres
        self.faults: Counter[str] = Counter()
        self._weights = WEIGHTS | (DATABASE_WEIGHTS if postgres is not None else {})
        self._attacks: dict[str, Callable[[Node], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "cut": self._cut,
            "stall": self._stall,
            "lose replies": self._lose_replies,
            "clock": self._move_clock,
            "restart database": lambda node: self._restart_database(signal.SIGINT),
            "crash database": lambda node: self._restart_database(signal.SIGQUIT),
        }

    @property
    def kills(self) -> int:
        return self.faults["kill"]

    async def run(self, enough: Callable[[], bool]) -> None:
        """Attack until it is enough."""
        while not enough():
            await asyncio.sleep(self.chance.uniform(*LIFE_S))
            (fault,) = self.chance.choices(list(self._weights), list(self._weights.values()))
            await self._attacks[fault](self.chance.choice(self.nodes))
            self.faults[fault] += 1

    async def _kill(self, node: Node) -> None:
        await node.kill()
        await node.start()

    async def _stop(self, node: Node) -> None:
        """Freeze a node for a while. Sometimes it is killed before it can go on."""
        node.stop()
        await asyncio.sleep(self.chance.uniform(*STOP_S))
        if self.chance.random() < 0.2:
            await self._kill(node)
            self.faults["kill"] += 1
        else:
            node.resume()

    async def _cut(self, node: Node) -> None:
        node.proxy.cut(self.chance)

    async def _stall(self, node: Node) -> None:
        await node.proxy.stall(self.chance, self.chance.uniform(*STALL_S))

    async def _lose_replies(self, node: Node) -> None:
        await node.proxy.lose_replies(self.chance, self.chance.uniform(*STALL_S))

    async def _move_clock(self, node: Node) -> None:
        node.clock.jump(self.chance.choice((0.0, self.chance.uniform(-CLOCK_S, CLOCK_S))))

    async def _restart_database(self, number: int) -> None:
        assert self.postgres is not None
        await asyncio.to_thread(self.postgres.restart, number)
