"""The records that an offline client and its store exchange: drafts, committed events, and updates."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainstem.client.sync_protocol.messages import FieldFault


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event of this client that the server has not committed yet. `clock` orders the drafts; `event` is JSON."""

    clock: int
    id: str
    partitions: tuple[str, ...]
    event: bytes
    digest: bytes


class Committed(msgspec.Struct, frozen=True, gc=False):
    """A committed event, with its committed id in the server's log; `event` is JSON as the client sent it."""

    committed_id: int
    id: str
    client_id: str
    partitions: tuple[str, ...]
    event: bytes
    committed_at: str


class RejectedDraft(msgspec.Struct, frozen=True, gc=False):
    """A draft that the server refused, as a store keeps it; `event` is JSON."""

    clock: int
    id: str
    partitions: tuple[str, ...]
    event: bytes
    reason: str
    errors: tuple[FieldFault, ...]


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The server's state of a partition up to a committed id, in place of pruned events; `state` is JSON."""

    partition: str
    committed_id: int
    state: bytes


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """The state of a view over all events up to a committed id. `partitions` None stands for all that are followed."""

    name: str
    version: int
    partitions: tuple[str, ...] | None
    committed_id: int
    state: bytes


class Followed(msgspec.Struct, frozen=True, gc=False):
    """A partition that the client follows.

    `since` is the committed id up to which its history has been fetched, and None once the cursor covers it.
    """

    name: str
    since: int | None = None


class Facts(msgspec.Struct, frozen=True):
    """What a session must know about the store. `highest` is the greatest committed id that the store holds."""

    cursor: int
    highest: int
    partitions: tuple[Followed, ...]
    drafts: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset(followed.name for followed in self.partitions)

    @property
    def is_complete(self) -> bool:
        """Whether no draft is waiting and no history is missing."""
        return not self.drafts and all(followed.since is None for followed in self.partitions)

    def stable_until(self, partitions: Sequence[str] | None) -> int:
        """Return the committed id up to which the store holds every event of these partitions."""
        pending = [
            followed.since
            for followed in self.partitions
            if followed.since is not None and (partitions is None or followed.name in partitions)
        ]
        return min([self.cursor, *pending])


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a draft that the server committed."""

    id: str
    committed_id: int
    committed_at: str


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a draft that the server refused."""

    id: str
    reason: str
    errors: tuple[FieldFault, ...] = ()


class StoreUpdate(msgspec.Struct, frozen=True):
    """The changes that one message of the server makes to the store: one transaction, in the order of these fields."""

    reset: bool = False
    """Discard everything that was committed; keep the drafts."""
    snapshots: tuple[Snapshot, ...] = ()
    events: tuple[Committed, ...] = ()
    commits: tuple[Commit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    cursor: int | None = None
    fetched: tuple[tuple[str, int], ...] = ()
    """Added partitions, and the committed id up to which their history has been fetched."""
    joined: tuple[str, ...] = ()
    """Partitions whose history is complete. From now on the cursor covers them."""
    left: tuple[str, ...] = ()
    """Partitions that the client no longer follows."""
    truncated: tuple[str, ...] = ()
    """Partitions whose beginning the server pruned without a snapshot."""


class Applied(msgspec.Struct):
    """What the updates of one transaction changed in the store."""

    events: int = 0
    """Events that became visible in a followed partition."""
    first: int = 0
    last: int = 0
    lowest: dict[str, int] = msgspec.field(default_factory=dict)
    """The lowest committed id per partition at which something is new."""
    settled: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Drafts that were committed, with their committed ids."""
    rejected: list[RejectedDraft] = msgspec.field(default_factory=list)
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
    """Return whether a state over these partitions up to a committed id lacks an event that was added since."""
    return any(low <= committed_id for name, low in lowest.items() if partitions is None or name in partitions)


class Diverged(Exception):
    """The server's log contradicts the store: one event has two committed ids, or one committed id has two events."""


class Event(msgspec.Struct, frozen=True):
    """An event as the application sees it. A draft has a `clock` and no `committed_id`."""

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


class Rejection(msgspec.Struct, frozen=True):
    """A draft that the server refused, as the application sees it."""

    clock: int
    id: str
    partitions: tuple[str, ...]
    event: dict[str, Any]
    reason: str
    errors: tuple[FieldFault, ...]


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


def rejection_of(draft: RejectedDraft) -> Rejection:
    return Rejection(draft.clock, draft.id, draft.partitions, _decode(draft.event), draft.reason, draft.errors)
