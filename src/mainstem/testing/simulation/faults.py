"""What goes wrong in one life of the server, and when. A seed decides it before the life begins."""

from random import Random
from typing import Literal, NamedTuple

from mainstem.log.store.sqlite.direct import BLOCK_BYTES
from mainstem.testing.simulation.disk import PowerFailure, SimulatedDisk
from mainstem.testing.simulation.loop import VirtualLoop
from mainstem.testing.simulation.network import Network

Kind = Literal["full disk", "failing syncs", "slow disk", "slow network", "cut connections"]
KINDS: tuple[Kind, ...] = ("full disk", "failing syncs", "slow disk", "slow network", "cut connections")

LIFE_STEPS = 1_000
"""About how many steps a life has that nothing ends."""
LIFE_OPERATIONS = 150
"""About how many operations of its disk it has, among those on one kind of file."""
FULL_BYTES = 50_000
"""The most that a full disk still has room for."""


class Fault(NamedTuple):
    kind: Kind
    begins_s: float
    """After the start of the server."""
    lasts_s: float
    syncs: int
    """How many syncs still succeed, if they are to fail."""
    bytes_left: int
    """By how much files may still grow, if the disk is to be full."""

    @classmethod
    def draw(cls, random: Random) -> "Fault":
        return cls(
            kind=random.choice(KINDS),
            begins_s=random.random() / 2,
            lasts_s=random.expovariate(2),
            syncs=random.randrange(10),
            bytes_left=int(FULL_BYTES * random.random() ** 2),
        )


class Plan(NamedTuple):
    crashes_at: int | None
    """The step of the event loop before which the process ends."""
    power_failure: PowerFailure | None
    faults: tuple[Fault, ...]
    crashes_after_s: float | None
    """How long after the start of the first fault the process ends."""
    cuts: float
    """The share of the connections that are cut."""
    embedded: bool
    """Whether the server is an app within another server, without its own edge."""

    @classmethod
    def draw(cls, random: Random) -> "Plan":
        ending = random.random()
        return cls(
            crashes_at=random.randint(1, LIFE_STEPS) if ending < 0.4 else None,
            power_failure=draw_power_failure(random) if 0.3 < ending < 0.7 else None,
            faults=tuple(Fault.draw(random) for _ in range(random.choice((0, 0, 1, 1, 2)))),
            crashes_after_s=random.expovariate(10) if 0.6 < ending < 0.9 else None,
            cuts=random.choice((0.0, 0.05, 0.3)),
            embedded=random.random() < 0.3,
        )


NO_FAULTS = Plan(None, None, (), None, 0.0, False)


def draw_power_failure(random: Random) -> PowerFailure:
    name = random.choice(("", "journal", "journal", "mainstem.db-wal", "mainstem.db"))
    if name == "journal" and random.random() < 0.7:
        return PowerFailure(random.choice((1, 1, 2, 3)), name, 2 * BLOCK_BYTES)  # the write of a batch, to tear it
    return PowerFailure(1 + int(LIFE_OPERATIONS * random.random() ** 2), name)


def schedule(plan: Plan, loop: VirtualLoop, disk: SimulatedDisk, network: Network) -> None:
    """Make the faults of a plan happen on a server that has just started."""
    for fault in plan.faults:
        loop.call_later(fault.begins_s, _begin, fault, disk, network)
        loop.call_later(fault.begins_s + fault.lasts_s, _end, fault, disk, network, plan.cuts)
    if plan.crashes_after_s is not None:
        begins_s = min((fault.begins_s for fault in plan.faults), default=0.5)
        loop.call_later(begins_s + plan.crashes_after_s, loop.crash)


def _begin(fault: Fault, disk: SimulatedDisk, network: Network) -> None:
    match fault.kind:
        case "full disk":
            disk.bytes_left = fault.bytes_left
        case "failing syncs":
            disk.fail_syncs(after_syncs=fault.syncs)
        case "slow disk":
            disk.slowness = 50.0
        case "slow network":
            network.slowness = 50.0
        case "cut connections":
            network.cuts = 1.0


def _end(fault: Fault, disk: SimulatedDisk, network: Network, cuts: float) -> None:
    match fault.kind:
        case "full disk":
            disk.bytes_left = None
        case "failing syncs":
            disk.heal()
        case "slow disk":
            disk.slowness = 1.0
        case "slow network":
            network.slowness = 1.0
        case "cut connections":
            network.cuts = cuts
