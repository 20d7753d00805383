"""What all recording clients share: their choices come from the seed, and they go on after every fault."""

import asyncio
from collections.abc import Sequence
from itertools import count
from random import Random

from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.connections import Connection, Unanswered
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope


class Worker:
    """A client that connects to any node, works until the connection fails, and connects again."""

    pause_s_max = 0.05
    paddings: tuple[int, ...] = (0, 0, 0, 0, 30, 300, 300, 5_000)
    """How much longer than necessary messages are."""
    through_proxy = 0.5
    """How often a client connects through the proxy of a node. The others see faults of the server alone."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        self.name = name
        self.scope = scope
        self.nodes = nodes
        self.recorder = recorder
        self.chance = Random(f"{seed} {name}")
        self.node = nodes[0]
        self._connections = count(1)
        self._messages = count(1)
        self.client = name
        """The name of the current connection."""

    async def run(self) -> None:
        while True:
            address = self.find_server()
            if address is not None:
                try:
                    await self.work_at(address)
                except Unanswered:
                    pass  # the recorder knows it, and the next connection continues
            await asyncio.sleep(self.chance.uniform(0, self.pause_s_max))

    def find_server(self) -> tuple[str, int] | None:
        """Return the address of a node; None if that is dead."""
        self.node = self.chance.choice(self.nodes)
        self.client = f"{self.name}.{next(self._connections)}"
        direct = self.node.address
        return self.node.proxy.address if direct is not None and self.chance.random() < self.through_proxy else direct

    async def work_at(self, address: tuple[str, int]) -> None:
        """Work until the connection fails."""
        raise NotImplementedError

    def make_message(self) -> str:
        """Return a JSON string that no other message equals, without commas and line feeds; some are long."""
        number = next(self._messages)
        pad = self.chance.choice(self.paddings)
        return f'"{self.name}:{number}{"." * pad}"'


class HttpWorker(Worker):
    """A worker with one HTTP connection at a time, on which it repeats `step`."""

    connection: Connection

    async def work_at(self, address: tuple[str, int]) -> None:
        self.connection = await Connection.open(address)
        try:
            await self.work()
        finally:
            self.connection.close()

    async def work(self) -> None:
        """Use the connection until it fails, or is of no more use."""
        while True:
            await self.step()
            if self.chance.random() < 0.5:
                await self.rest()

    async def rest(self) -> None:
        await asyncio.sleep(self.chance.uniform(0, self.pause_s_max))

    async def step(self) -> None:
        raise NotImplementedError
