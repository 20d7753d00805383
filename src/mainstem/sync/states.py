"""What is durable about events and partitions besides the events themselves."""

import msgspec

from mainstem.log.commands import Key, Space
from mainstem.log.records import CommittedId
from mainstem.log.spaces import SpaceNumber


class EventEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An id that was committed, and what it was: this stays when the event is pruned, so that dedupe never forgets."""

    digest: bytes
    committed_id: CommittedId
    committed_at_us: int


class PartitionState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`floor`: history up to this id is not promised any more. `snapshot_id`: where the snapshot ends, 0 for none."""

    floor: int = 0
    snapshot_id: int = 0
    pruned: int = 0
    """Up to where pruning has looked at this partition's events."""


class Snapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    committed_id: int
    state: bytes
    """JSON as it was put."""
    created_at_us: int


EVENT_IDS: Space[EventEntry] = Space(SpaceNumber.EVENT_IDS, EventEntry, cached=False)
PARTITIONS: Space[PartitionState] = Space(SpaceNumber.PARTITIONS, PartitionState)
SNAPSHOTS: Space[Snapshot] = Space(SpaceNumber.SNAPSHOTS, Snapshot, cached=False)


def event_key(event_id: str) -> Key:
    return Key(EVENT_IDS, event_id)


def partition_key(name: str) -> Key:
    return Key(PARTITIONS, name)


def snapshot_key(name: str) -> Key:
    return Key(SNAPSHOTS, name)
