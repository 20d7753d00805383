"""Commands of the sync protocol: submit events, put snapshots, and prune partitions."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstem.errors import BadRequest
from mainstem.log.commands import Freeing, Key, View
from mainstem.log.pruned import PRUNED_KEY, advance_pruned
from mainstem.log.records import CommittedId, Kind, TopicId
from mainstem.sync.protocol.canonical import decode_event
from mainstem.sync.protocol.messages import encode_stored
from mainstem.sync.states import (
    EventEntry,
    PartitionState,
    Snapshot,
    event_key,
    partition_key,
    snapshot_key,
)
from mainstem.sync.validation.validators import FieldError, Validator

NO_TOPIC = TopicId(0)
EVENT = Kind.EVENT


class Item(msgspec.Struct, frozen=True, gc=False):
    """One draft after every check that does not need the log: either ready to be committed, or already refused."""

    id: str
    partitions: tuple[str, ...] = ()
    event: bytes = b""
    digest: bytes = b""
    refusal: str | None = None
    errors: tuple[FieldError, ...] = ()
    value: dict[str, Any] | None = None
    """The decoded event, for a validator. Decoding it during the commit would make other writers wait."""


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of one draft."""

    id: str
    status: str
    status_updated_at: int
    committed_id: int | None = None
    reason: str | None = None
    errors: tuple[FieldError, ...] = ()


class Submit(msgspec.Struct, frozen=True, gc=False):
    """Commit a batch of drafts one by one. A rejected draft leaves no trace, so its id stays free, and does not affect
    the others."""

    items: tuple[Item, ...]
    client_id: str
    origin: int = 0
    validate: Validator | None = None

    @property
    def size(self) -> int:
        return sum([len(item.event) for item in self.items])

    def needs(self) -> list[Key]:
        return [event_key(item.id) for item in self.items if item.refusal is None]

    def apply(self, view: View) -> tuple[Result, ...]:
        earlier: list[dict[str, Any]] = []
        return tuple([self._submit(view, item, earlier) for item in self.items])

    def _submit(self, view: View, item: Item, earlier: list[dict[str, Any]]) -> Result:
        if item.refusal is not None:
            return Result(item.id, "rejected", view.now_us, None, item.refusal, item.errors)
        key = event_key(item.id)
        known: EventEntry | None = view.get(key)
        if known is not None:
            if known.digest == item.digest:
                return Result(item.id, "committed", known.committed_at_us, known.committed_id)
            error = FieldError("event", "this id is already committed with different content; use a new id")
            return Result(item.id, "rejected", view.now_us, None, "validation_failed", (error,))
        if self.validate is not None:  # after deduplication, so that a stateful validator cannot reject a retry
            event = decode_event(item.event) if item.value is None else item.value
            errors = tuple(self.validate(event, earlier))
            if errors:
                return Result(item.id, "rejected", view.now_us, None, "validation_failed", errors)
            earlier.append(event)
        data = encode_stored(item.id, self.client_id, item.partitions, item.event)
        committed_id = view.append(EVENT, NO_TOPIC, 0, 0, 1, data, self.client_id, item.partitions, self.origin)
        view.put(key, EventEntry(item.digest, committed_id, view.now_us))
        return Result(item.id, "committed", view.now_us, committed_id)


class PutSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Store a snapshot of a partition up to a committed id. It must not be older than the current snapshot."""

    partition: str
    committed_id: int
    state: bytes

    @property
    def size(self) -> int:
        return len(self.state)

    def needs(self) -> list[Key]:
        return [partition_key(self.partition), snapshot_key(self.partition)]

    def apply(self, view: View) -> None:
        partition: PartitionState = view.get(partition_key(self.partition)) or PartitionState()
        if self.committed_id > view.head:
            raise BadRequest(f"committed_id {self.committed_id} is beyond the head of the log, {view.head}")
        if self.committed_id < partition.snapshot_id:
            raise BadRequest(
                f"committed_id {self.committed_id} is older than the current snapshot, which ends at "
                f"{partition.snapshot_id}"
            )
        view.put(snapshot_key(self.partition), Snapshot(self.committed_id, self.state, view.now_us))
        view.put(partition_key(self.partition), msgspec.structs.replace(partition, snapshot_id=self.committed_id))


class RaiseFloors(msgspec.Struct, Freeing, frozen=True, gc=False):
    """Raise the floors of partitions. The pruner then erases each event that the floors of all its partitions have
    reached."""

    floors: tuple[tuple[str, int], ...]
    size: int = 0

    def needs(self) -> list[Key]:
        return [partition_key(name) for name, _ in self.floors]

    def apply(self, view: View) -> None:
        for _, floor in self.floors:
            if floor > view.head:
                raise BadRequest(f"floor {floor} is beyond the head of the log, {view.head}")
        for name, floor in self.floors:
            partition: PartitionState = view.get(partition_key(name)) or PartitionState()
            if floor > partition.floor:
                view.append(Kind.PRUNE, NO_TOPIC, floor, floor, source=name)
                view.put(partition_key(name), msgspec.structs.replace(partition, floor=floor))


class NoteErased(msgspec.Struct, Freeing, frozen=True, gc=False):
    """Record that events are about to be erased: the newest one, and the newest one of each of their partitions."""

    last_id: CommittedId
    partitions: tuple[tuple[str, CommittedId], ...]
    size: int = 0

    def needs(self) -> list[Key]:
        return [PRUNED_KEY, *(partition_key(name) for name, _ in self.partitions)]

    def apply(self, view: View) -> None:
        advance_pruned(view, self.last_id)
        for name, committed_id in self.partitions:
            partition: PartitionState = view.get(partition_key(name)) or PartitionState()
            if committed_id > partition.erased_id:
                view.put(partition_key(name), msgspec.structs.replace(partition, erased_id=committed_id))


class NotePruned(msgspec.Struct, Freeing, frozen=True, gc=False):
    """Record how far the pruner has got in a partition."""

    partition: str
    until: int
    size: int = 0

    def needs(self) -> list[Key]:
        return [partition_key(self.partition)]

    def apply(self, view: View) -> None:
        partition: PartitionState = view.get(partition_key(self.partition)) or PartitionState()
        view.put(partition_key(self.partition), msgspec.structs.replace(partition, pruned=self.until))


def prunable(committed_id: CommittedId, floors: Sequence[int]) -> bool:
    """Return whether an event may be erased: the floors of all its partitions have reached it (seed 001)."""
    return all(floor >= committed_id for floor in floors)
