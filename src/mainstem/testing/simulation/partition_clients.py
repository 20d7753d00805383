"""Clients of partitions over HTTP: a reader, and an administrator who stores snapshots and prunes history."""

from random import Random

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import AnyCall, LogPage, PartitionPage, Prune
from mainstem.testing.history.payloads import ReceivedEvent
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.clients import Client, read_refusal, repeat
from mainstem.testing.simulation.network import Network
from mainstem.testing.simulation.sync_clients import PARTITIONS

SNAPSHOT_BYTES = 6_000

_decode_events = msgspec.json.Decoder(list[ReceivedEvent]).decode


class PartitionReader(Client):
    """Reads partitions page by page, or from the beginning."""

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self._cursors = dict.fromkeys(PARTITIONS, 0)

    async def act(self, network: Network) -> None:
        name = self.random.choice(PARTITIONS)
        await self._read(network, name, 0 if self.random.random() < 0.2 else self._cursors[name])

    async def settle(self, network: Network) -> None:
        for name in PARTITIONS:
            while not await self._read(network, name, self._cursors[name]):
                continue

    async def _read(self, network: Network, name: str, since: int) -> bool:
        """Read a page, and return whether nothing follows it. If history is gone, the next page begins after it."""
        with self.recorder.record(PartitionPage(client=self.name, partition=name, since=since)) as call:
            response = await network.request("GET", f"/v1/partition/{name}?offset={Offset(0, since)}")
            call.refusal = read_refusal(response)
            if call.refusal is None:
                call.events = tuple(event.seen() for event in _decode_events(response.body))
                call.next = Offset.parse(response.headers["stream-next-offset"]).position
                call.up_to_date = response.headers.get("stream-up-to-date") == "true"
        if call.refusal is None:
            self._cursors[name] = call.next
        elif call.refusal == "offset_gone":
            self._cursors[name] = Offset.parse(response.headers["stream-earliest-offset"]).position
        return call.up_to_date


class Snapshot(msgspec.Struct, frozen=True):
    committed_id: int
    state: str


class WrongSnapshot(Exception):
    """A snapshot that was not stored, or that had been replaced."""


class Administrator(Client):
    """Stores snapshots, and prunes partitions. Nobody else does, so it knows which snapshots there may be."""

    actions_max = 4

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self._snapshots: dict[str, list[Snapshot | None]] = {partition: [None] for partition in PARTITIONS}
        """The snapshots that each partition may have now: the last one that was confirmed, and those after it."""
        self._stored = 0

    async def act(self, network: Network) -> None:
        name = self.random.choice(PARTITIONS)
        if self.random.random() < 0.3:
            await self._check_snapshot(network, name)
            return
        head = await network.request("HEAD", f"/v1/partition/{name}")
        if read_refusal(head) is not None:
            return
        until = self.random.randint(0, Offset.parse(head.headers["stream-next-offset"]).position)
        if self.random.random() < 0.5:
            await self._store_snapshot(network, name, until)
        names = {name, *self.random.sample(PARTITIONS, self.random.randrange(3))}
        await self._prune(network, dict.fromkeys(sorted(names), until))

    async def settle(self, network: Network) -> None:
        for name in PARTITIONS:
            await self._check_snapshot(network, name)

    async def _prune(self, network: Network, floors: dict[str, int]) -> None:
        with self.recorder.record(Prune(client=self.name, floors=floors)) as call:
            body = msgspec.json.encode({"floors": floors})
            call.refusal = read_refusal(await network.request("POST", "/v1/prune", body=body))

    async def _store_snapshot(self, network: Network, name: str, committed_id: int) -> None:
        self._stored += 1
        state = repeat(f"{self.name}-{self._stored}", self.random.randrange(SNAPSHOT_BYTES))
        snapshot = Snapshot(committed_id, state)
        self._snapshots[name].append(snapshot)
        response = await network.request("PUT", f"/v1/snapshot/{name}", body=msgspec.json.encode(snapshot))
        if read_refusal(response) is None:
            self._snapshots[name] = [snapshot]
        else:
            self._snapshots[name].remove(snapshot)

    async def _check_snapshot(self, network: Network, name: str) -> None:
        response = await network.request("GET", f"/v1/snapshot/{name}")
        if read_refusal(response) not in (None, "not_found"):
            return
        found = msgspec.json.decode(response.body, type=Snapshot) if response.status == 200 else None
        possible = self._snapshots[name]
        if found not in possible:
            raise WrongSnapshot(f"partition {name!r} has {found}, and not one of {possible}")
        del possible[: possible.index(found)]


def find_unpruned(calls: list[AnyCall]) -> list[str]:
    """Return the events that must have been erased, but are in the log."""
    floors = dict.fromkeys(PARTITIONS, 0)
    for call in calls:
        if isinstance(call, Prune) and call.accepted:
            for name, floor in call.floors.items():
                floors[name] = max(floor, floors[name])
    return [
        f"{event.id!r} was pruned, but is in the log as {event.committed_id}"
        for call in calls
        if isinstance(call, LogPage)
        for event in call.events
        if all(floors[name] >= event.committed_id for name in event.partitions)
    ]
