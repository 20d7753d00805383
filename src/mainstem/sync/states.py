"""The durable states of events and partitions, besides the events themselves."""

import msgspec

from mainstem.log.commands import Key, Space
from mainstem.log.records import CommittedId
from mainstem.log.spaces import SpaceNumber


class EventEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The entry of a committed event in the deduplication index. It outlives the event: pruning does not remove it."""

    digest: bytes
    committed_id: CommittedId
    committed_at_us: int


class PartitionState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far the history of a partition has been replaced. All fields are committed ids; 0 stands for none."""

    floor: int = 0
    """The history up to this id may be gone."""
    snapshot_id: int = 0
    """The id up to which the snapshot reaches."""
    pruned: int = 0
    """The id up to which the pruner has examined this partition's events."""
    erased_id: int = 0
    """The id of the newest event that was erased."""


class Snapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    committed_id: int
    state: bytes
    """The JSON text, exactly as the client sent it."""
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
