"""What an offline client keeps and exchanges with its store: drafts, committed events, and what changes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainstem.client.sync_protocol.messages import FieldFault


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event that this client made and that has no committed id yet. `clock` is its place among the drafts."""

    clock: int
    id: str
    partitions: tuple[str, ...]
    event: bytes
    digest: bytes


class Committed(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in the server's log; `event` is JSON as it was sent."""

    committed_id: int
    id: str
    client_id: str
    partitions: tuple[str, ...]
    event: bytes
    committed_at: str


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """A draft that the server will not commit."""

    clock: int
    id: str
    partitions: tuple[str, ...]
    event: bytes
    reason: str
    errors: tuple[FieldFault, ...]


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The server's state of a partition up to a committed id, in place of events that it has pruned."""

    partition: str
    committed_id: int
    state: bytes


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A view's state over all events up to a committed id. `partitions` None: all that are followed."""

    name: str
    version: int
    partitions: tuple[str, ...] | None
    committed_id: int
    state: bytes


class Followed(msgspec.Struct, frozen=True, gc=False):
    """A partition that the client follows. `since` is None once the cursor covers it; before that, how far its history
    has been fetched."""

    name: str
    since: int | None = None


class Facts(msgspec.Struct, frozen=True):
    """What a session must know of the store. `highest` is the newest committed id that the store holds."""

    cursor: int
    highest: int
    partitions: tuple[Followed, ...]
    drafts: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset(followed.name for followed in self.partitions)

    @property
    def is_complete(self) -> bool:
        """No draft waits, and no partition's history is missing."""
        return not self.drafts and all(followed.since is None for followed in self.partitions)

    def stable_until(self, partitions: Sequence[str] | None) -> int:
        """Up to here no event of these partitions can still come."""
        pending = [
            followed.since
            for followed in self.partitions
            if followed.since is not None and (partitions is None or followed.name in partitions)
        ]
        return min([self.cursor, *pending])


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The good outcome of a draft."""

    id: str
    committed_id: int
    committed_at: str


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The bad one."""

    id: str
    reason: str
    errors: tuple[FieldFault, ...] = ()


class StoreUpdate(msgspec.Struct, frozen=True):
    """What one message of the server changes in the store. It is applied in one transaction, in the order of these
    fields."""

    reset: bool = False
    """Forget everything that was committed; keep the drafts."""
    snapshots: tuple[Snapshot, ...] = ()
    events: tuple[Committed, ...] = ()
    commits: tuple[Commit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    cursor: int | None = None
    fetched: tuple[tuple[str, int], ...] = ()
    """How far the history of added partitions has been fetched."""
    joined: tuple[str, ...] = ()
    """Partitions whose history is complete: the cursor covers them from now on."""
    left: tuple[str, ...] = ()
    """Partitions that are not followed any more."""
    truncated: tuple[str, ...] = ()
    """Partitions whose beginning the server has pruned without a snapshot."""


class Applied(msgspec.Struct):
    """What the updates of one transaction did to the store."""

    events: int = 0
    """Events that became visible in a followed partition."""
    first: int = 0
    last: int = 0
    lowest: dict[str, int] = msgspec.field(default_factory=dict)
    """Partition -> the lowest committed id at which something is new in it."""
    settled: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Drafts that are committed now."""
    rejected: list[Rejection] = msgspec.field(default_factory=list)
    truncated: list[str] = msgspec.field(default_factory=list)
    reset: bool = False

    def show(self, committed_id: int, partitions: Sequence[str]) -> None:
        self.first = min(self.first or committed_id, committed_id)
        self.last = max(self.last, committed_id)
        self.events += 1
        for name in partitions:
            self.touch(name, committed_id)

    def touch(self, partition: str, committed_id: int) -> None:
        self.lowest[partition] = min(self.lowest.get(partition, committed_id), committed_id)


def is_stale(committed_id: int, partitions: Sequence[str] | None, lowest: Mapping[str, int]) -> bool:
    """Whether a state over the events of these partitions up to an id misses something that was added since."""
    return any(low <= committed_id for name, low in lowest.items() if partitions is None or name in partitions)


class Diverged(Exception):
    """The server's history contradicts what the store holds: one id with two places, or one place with two ids."""


class Event(msgspec.Struct, frozen=True):
    """An event as an application sees it. A draft has a `clock` and no `committed_id`."""

    id: str
    partitions: tuple[str, ...]
    event: dict[str, Any]
    client_id: str
    committed_id: int | None = None
    clock: int | None = None
    committed_at: str = ""

    @property
    def is_draft(self) -> bool:
        return self.committed_id is None


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def event_of(stored: Committed) -> Event:
    return Event(
        stored.id,
        stored.partitions,
        _decode(stored.event),
        stored.client_id,
        committed_id=stored.committed_id,
        committed_at=stored.committed_at,
    )


def draft_event(draft: Draft, client_id: str) -> Event:
    return Event(draft.id, draft.partitions, _decode(draft.event), client_id, clock=draft.clock)
