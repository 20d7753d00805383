"""Rules for events, event ids and partitions."""

from collections.abc import Iterator

import msgspec

from mainstem import limits
from mainstem.errors import ValidationFailed
from mainstem.log.records import Kind
from mainstem.log.store.snapshot import Event, Finding, StoreSnapshot, batches
from mainstem.sync.protocol.canonical import content_hash
from mainstem.sync.protocol.messages import StoredEvent, decode_stored
from mainstem.sync.states import EVENT_IDS, PARTITIONS, SNAPSHOTS, EventEntry


def check_events(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that each event has an entry in the index of event ids, with its content hash, and a tag per partition."""
    tags = 0
    for records in snapshot.scan_events():
        events: list[tuple[Event, StoredEvent, bytes]] = []
        for record in records:
            try:
                event = decode_stored(record.data)
                events.append((record, event, content_hash(event.partitions, bytes(event.event))))
            except (msgspec.MsgspecError, ValueError, ValidationFailed):
                yield Finding("event", f"event {record.committed_id} cannot be decoded")
        if events:
            tags += sum(len(event.partitions) for _, event, _ in events)
            yield from _check_entries(snapshot, events)
            yield from _check_tags(snapshot, events)
    kept = snapshot.count_tags()
    if kept > tags:
        yield Finding("tag", f"the store has {kept} tags, but its events need only {tags}")


def _check_entries(snapshot: StoreSnapshot, events: list[tuple[Event, StoredEvent, bytes]]) -> Iterator[Finding]:
    entries = snapshot.find_states(EVENT_IDS, sorted({event.id for _, event, _ in events}))
    for record, event, digest in events:
        number = record.committed_id
        entry: EventEntry | None = entries.get(event.id)
        if entry is None:
            yield Finding("event", f"event {number} has the id {event.id!r}, which is missing in the index of ids")
        elif entry.committed_id != number:
            where = f"{entry.committed_id} in the index, but is the id of event {number} too"
            yield Finding("event", f"the id {event.id!r} belongs to {where}")
        elif entry.digest != digest:
            yield Finding("event", f"event {number} differs from what was committed: its hash is another one")
        if record.source != event.client_id:
            yield Finding("event", f"event {number} names client {event.client_id!r}, but its record {record.source!r}")


def _check_tags(snapshot: StoreSnapshot, events: list[tuple[Event, StoredEvent, bytes]]) -> Iterator[Finding]:
    partitions = sorted({partition for _, event, _ in events for partition in event.partitions})
    found = snapshot.find_tags(partitions, events[0][0].committed_id, events[-1][0].committed_id)
    for record, event, _ in events:
        for partition in event.partitions:
            if (partition, record.committed_id) not in found:
                yield Finding("tag", f"event {record.committed_id} of partition {partition!r} has no tag for it")


def check_event_ids(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that an id without an event is the tombstone of a pruned one: at or below the floor of some partition."""
    head = snapshot.find_head()
    floor = max((state.floor for _, state in snapshot.scan_states(PARTITIONS)), default=0)
    for entries in batches(snapshot.scan_states(EVENT_IDS)):
        kinds = snapshot.find_kinds([entry.committed_id for _, entry in entries])
        for event_id, entry in entries:
            number = entry.committed_id
            if number > head:
                yield Finding("head", f"event {event_id!r} was committed as {number}, but the log ends at {head}")
            elif number > floor and kinds.get(number) != Kind.EVENT:
                yield Finding("event", f"event {event_id!r} ({number}) is missing, although nothing pruned it")


def check_partitions(snapshot: StoreSnapshot) -> Iterator[Finding]:
    head = snapshot.find_head()
    for partitions in batches(snapshot.scan_states(PARTITIONS), limits.CHECK_SNAPSHOTS_MAX):
        snapshots = snapshot.find_states(SNAPSHOTS, [name for name, _ in partitions])
        for name, state in partitions:
            if max(state.floor, state.snapshot_id, state.pruned, state.erased_id) > head:
                yield Finding("head", f"partition {name!r} refers to an id beyond the end of the log, {head}")
            taken = snapshots.get(name)
            if (0 if taken is None else taken.committed_id) != state.snapshot_id:
                yield Finding("partition", f"partition {name!r}: its snapshot does not end at {state.snapshot_id}")
