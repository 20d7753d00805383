"""Clients of forks: they fork streams that others use, and write, read and delete the forks, or delete the streams."""

from random import Random

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Append, Create, size_of
from mainstem.testing.history.payloads import Position
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.network import Network
from mainstem.testing.simulation.stream_clients import KEPT, PATHS, StreamClient, StreamMissing


class Forker(StreamClient):
    """Has one fork at a time, and each has a path of its own."""

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self._forks = 0
        self._fork: Create | None = None
        """The PUT of the fork. It is repeated until it is answered."""

    async def act(self, network: Network) -> None:
        if self._fork is None:
            self._fork = await self._choose(network)
        if self._fork is None:
            return
        if not self._fork.accepted:
            await self._put(network, self._fork)
            return
        path, source, choice = self._fork.path, self._fork.source, self.random.random()
        if choice < 0.4:
            await self.append(network, Append(client=self.name, path=path, messages=self.make_messages(path)))
        elif choice < 0.8:
            await self.read_all(network, path)
        elif choice < 0.9 and source not in KEPT:
            await self.delete(network, source)
        else:
            self._fork = None
            await self.delete(network, path)

    async def settle(self, network: Network) -> None:
        while self._fork is not None and not self._fork.accepted:
            await self._put(network, self._fork)
        if self._fork is not None:
            await self.read_all(network, self._fork.path)

    async def _choose(self, network: Network) -> Create | None:
        """Choose where to fork a stream: before or after any message of its first page."""
        source = self.random.choice(PATHS)
        try:
            page = await self.read(network, Position(source))
        except StreamMissing:
            return None
        assert page.next is not None
        inherited = page.messages[: self.random.randrange(len(page.messages) + 1)]
        self._forks += 1
        path = f"{self.name}-{self._forks}-of-{source}"
        return Create(
            client=self.name,
            path=path,
            source=source,
            fork_point=Offset(page.next.read_seq, size_of(inherited)),
        )

    async def _put(self, network: Network, fork: Create) -> None:
        self._fork = call = Create(client=self.name, path=fork.path, source=fork.source, fork_point=fork.fork_point)
        headers = {"stream-forked-from": f"/v1/stream/{fork.source}", "stream-fork-offset": str(fork.fork_point)}
        await self.put(network, call, headers)
        if call.refusal is not None:
            self._fork = None
