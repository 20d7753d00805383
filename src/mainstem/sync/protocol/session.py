"""The session machine, and the sync cycle: what a connection may say when, and which request continues which."""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from mainstem import limits
from mainstem.errors import SyncBadRequest


class State(Enum):
    AWAIT_CONNECT = "await_connect"
    ACTIVE = "active"
    CLOSED = "closed"


# What each state takes. A second `connect` is as wrong as an unknown type.
TAKES: Final[dict[State, frozenset[str]]] = {
    State.AWAIT_CONNECT: frozenset({"connect", "heartbeat"}),
    State.ACTIVE: frozenset({"submit_events", "submit_event", "sync", "heartbeat", "disconnect"}),
    State.CLOSED: frozenset(),
}
TYPES: Final = TAKES[State.AWAIT_CONNECT] | TAKES[State.ACTIVE]


def admit(state: State, type_: str) -> None:
    if type_ in TAKES[state]:
        return
    if type_ not in TYPES:
        raise SyncBadRequest(f"{type_[:64]!r} is not a message type of this protocol")
    if state is State.AWAIT_CONNECT:
        raise SyncBadRequest("say connect first")
    raise SyncBadRequest(f"{type_} is not expected now")


class Cycle(msgspec.Struct, frozen=True, gc=False):
    """Catching up, from the first accepted `sync` to the page without more. `until` is the same for all pages."""

    partitions: tuple[str, ...]
    began_since: int
    until: int
    next_since: int
    told: tuple[tuple[str, int], ...] = ()
    """The floors that the pages have told of."""

    def is_continued_by(self, partitions: tuple[str, ...], since: int) -> bool:
        return partitions == self.partitions and since == self.next_since


def clamp_limit(limit: int | None) -> int:
    """Seed 000: a limit outside the bounds is coerced to the nearest one."""
    if limit is None:
        return limits.SYNC_PAGE
    return max(limits.SYNC_PAGE_MIN, min(limit, limits.SYNC_PAGE_MAX))


class Feed:
    """Which broadcasts a connection still has to get: one cursor, so nothing is queued that the log holds anyway.

    Everything up to `cursor` is dealt with. While `live`, events are handed over as they are committed; else they are
    read from the log behind the cursor, when the cycle is over or the reader has made room.
    """

    def __init__(self, at: int) -> None:
        self.cursor = at
        self.live = True
        self.cycle: Cycle | None = None
        self.subscriptions: dict[str, int] = {}
        """Partition -> the id behind which its events are wanted."""
        self.own: set[int] = set()
        """Ids that this connection submitted itself while it was not live."""
        self._covered: list[Cycle] = []

    def replace_subscriptions(self, partitions: Sequence[str], since: int) -> tuple[list[str], list[str]]:
        """Exactly this set from now on. Returns what was added and what was dropped."""
        wanted = set(partitions)
        added = [name for name in partitions if name not in self.subscriptions]
        dropped = [name for name in self.subscriptions if name not in wanted]
        for name in dropped:
            del self.subscriptions[name]
        for name in added:
            self.subscriptions[name] = since
        return added, dropped

    def begin_cycle(self, cycle: Cycle, seen: int) -> None:
        """`seen` is the newest id that was handed out for delivery."""
        self.pause(seen)
        self.cycle = cycle

    def end_cycle(self) -> None:
        """The last page has left."""
        assert self.cycle is not None
        self._cover(self.cycle)

    def abandon_cycle(self) -> None:
        """Another cycle begins instead: only the pages that were sent count."""
        assert self.cycle is not None
        self._cover(msgspec.structs.replace(self.cycle, until=self.cycle.next_since))

    def _cover(self, cycle: Cycle) -> None:
        """What the pages held is not broadcast again, if this connection was behind when the cycle began."""
        if self.cursor < cycle.until:
            self._covered.append(cycle)
        self.cycle = None

    def pause(self, seen: int) -> None:
        if self.live:
            self.live = False
            self.cursor = seen

    def resume(self) -> None:
        self.live = True
        self.own.clear()
        self._covered.clear()

    def wants(self, partitions: Sequence[str], committed_id: int) -> bool:
        """Whether an event that was read from the log is still to be sent."""
        if committed_id in self.own:
            return False
        if not any(committed_id > self.subscriptions.get(name, committed_id) for name in partitions):
            return False
        return not any(
            cycle.began_since < committed_id <= cycle.until and not cycle_misses(cycle, partitions)
            for cycle in self._covered
        )


def cycle_misses(cycle: Cycle, partitions: Sequence[str]) -> bool:
    return not any(name in cycle.partitions for name in partitions)
