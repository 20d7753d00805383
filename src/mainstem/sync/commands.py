"""The commands of the sync protocol: submitting events, putting snapshots, and pruning."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstem.errors import BadRequest
from mainstem.log.commands import Freeing, Key, View
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


class Item(msgspec.Struct, frozen=True, gc=False):
    """One draft, checked as far as that needs no log: ready to be committed, or refused already."""

    id: str
    partitions: tuple[str, ...] = ()
    event: bytes = b""
    digest: bytes = b""
    refusal: str | None = None
    errors: tuple[FieldError, ...] = ()
    value: dict[str, Any] | None = None
    """The event, decoded for a validator: the committer has no time for it."""


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of one draft; the wire form is this very struct."""

    id: str
    status: str
    status_updated_at: int
    committed_id: int | None = None
    reason: str | None = None
    errors: tuple[FieldError, ...] = ()


class Submit(msgspec.Struct, frozen=True, gc=False):
    """A batch of drafts, committed one by one: a rejected one leaves no trace and does not stop the next."""

    items: tuple[Item, ...]
    client_id: str
    origin: int = 0
    validate: Validator | None = None

    @property
    def size(self) -> int:
        return sum(len(item.event) for item in self.items)

    def needs(self) -> list[Key]:
        return [event_key(item.id) for item in self.items if item.refusal is None]

    def apply(self, view: View) -> tuple[Result, ...]:
        earlier: list[dict[str, Any]] = []
        return tuple(self._submit(view, item, earlier) for item in self.items)

    def _submit(self, view: View, item: Item, earlier: list[dict[str, Any]]) -> Result:
        if item.refusal is not None:
            return Result(item.id, "rejected", view.now_us, None, item.refusal, item.errors)
        known: EventEntry | None = view.get(event_key(item.id))
        if known is not None:
            if known.digest == item.digest:
                return Result(item.id, "committed", known.committed_at_us, known.committed_id)
            error = FieldError("event", "this id was committed with other content")
            return Result(item.id, "rejected", view.now_us, None, "validation_failed", (error,))
        if self.validate is not None:  # after dedupe, so that a stateful validator cannot refuse an honest retry
            event = decode_event(item.event) if item.value is None else item.value
            errors = tuple(self.validate(event, earlier))
            if errors:
                return Result(item.id, "rejected", view.now_us, None, "validation_failed", errors)
            earlier.append(event)
        return self._commit(view, item)

    def _commit(self, view: View, item: Item) -> Result:
        data = encode_stored(item.id, self.client_id, item.partitions, item.event)
        committed_id = view.append(
            Kind.EVENT, NO_TOPIC, 0, 0, 1, data, self.client_id, tags=item.partitions, origin=self.origin
        )
        view.put(event_key(item.id), EventEntry(item.digest, committed_id, view.now_us))
        return Result(item.id, "committed", view.now_us, committed_id)


class PutSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Keep the state of a partition up to a committed id. An older one than the present is refused."""

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
            raise BadRequest(f"the log ends at {view.head}: there is no {self.committed_id} yet")
        if self.committed_id < partition.snapshot_id:
            raise BadRequest(f"there is a newer snapshot, at {partition.snapshot_id}")
        view.put(snapshot_key(self.partition), Snapshot(self.committed_id, self.state, view.now_us))
        view.put(partition_key(self.partition), msgspec.structs.replace(partition, snapshot_id=self.committed_id))


class RaiseFloors(msgspec.Struct, Freeing, frozen=True, gc=False):
    """Give up history of partitions up to a committed id each. Events go only when all of their partitions have."""

    floors: tuple[tuple[str, int], ...]
    size: int = 0

    def needs(self) -> list[Key]:
        return [partition_key(name) for name, _ in self.floors]

    def apply(self, view: View) -> None:
        for _, floor in self.floors:
            if floor > view.head:
                raise BadRequest(f"the log ends at {view.head}: nothing can be pruned up to {floor}")
        for name, floor in self.floors:
            partition: PartitionState = view.get(partition_key(name)) or PartitionState()
            if floor > partition.floor:
                view.append(Kind.PRUNE, NO_TOPIC, floor, floor, source=name)
                view.put(partition_key(name), msgspec.structs.replace(partition, floor=floor))


class NotePruned(msgspec.Struct, Freeing, frozen=True, gc=False):
    """Remember how far pruning has come in a partition."""

    partition: str
    until: int
    size: int = 0

    def needs(self) -> list[Key]:
        return [partition_key(self.partition)]

    def apply(self, view: View) -> None:
        partition: PartitionState = view.get(partition_key(self.partition)) or PartitionState()
        view.put(partition_key(self.partition), msgspec.structs.replace(partition, pruned=self.until))


def prunable(committed_id: CommittedId, floors: Sequence[int]) -> bool:
    """Seed 001: an event goes only when every one of its partitions has advanced past it."""
    return all(floor >= committed_id for floor in floors)
