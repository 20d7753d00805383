"""What streams and events promise about a store's states and records, as rules for its check."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from mainstem.errors import ValidationFailed
from mainstem.log import pruned
from mainstem.log.commands import Key, S, Space
from mainstem.log.records import Kind, TopicId
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.check import Fault, Report, Steps, check, end_of_log, quiet
from mainstem.streams import states as stream_states
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.states import (
    GARBAGE,
    PRODUCERS,
    RETENTION_CHECKS,
    STREAMS,
    Garbage,
    Segment,
    StreamState,
    garbage_key,
    retention_key,
    stream_key,
)
from mainstem.streams.subscriptions import model as subscriptions
from mainstem.streams.subscriptions import signing
from mainstem.sync import states as sync_states
from mainstem.sync.protocol.canonical import content_hash
from mainstem.sync.protocol.messages import StoredEvent, decode_stored
from mainstem.sync.states import EVENT_IDS, PARTITIONS, SNAPSHOTS, EventEntry, Snapshot, event_key

MODULES = (pruned, stream_states, subscriptions, signing, sync_states)
"""Where the state spaces are: what one of them defines is known to the check by itself."""
SPACES = {space.number: space for module in MODULES for space in vars(module).values() if isinstance(space, Space)}


def check_everything(db: apsw.Connection, on_step: Steps = quiet) -> Report:
    """The store's own rules, and those of both protocols."""
    rules = [
        ("stream", check_streams),
        ("fork", check_forks),
        ("owner", check_owners),
        ("producer", check_producers),
        ("retention", check_retention),
        ("event", check_events),
        ("event id", check_event_ids),
        ("partition", check_partitions),
    ]
    return check(db, SPACES, rules, on_step)


def each(db: apsw.Connection, space: Space[S]) -> Iterator[tuple[str, S]]:
    """All states of a space that can be decoded; the others are reported by the rule for states."""
    for name, value in db.execute("SELECT name, value FROM states WHERE space = ?", (space.number,)):
        try:
            yield name, space.decode(value)
        except (msgspec.MsgspecError, ValueError):
            continue


def find(db: apsw.Connection, key: Key) -> Any:
    try:
        return queries.load(db, [key])[key]
    except (msgspec.MsgspecError, ValueError):
        return None


# Streams

DATA = f"""
    SELECT min("start"), max(place."end") FROM {queries.APPENDS} WHERE place.topic = ? AND place."end" > ?"""


def check_streams(db: apsw.Connection) -> Iterator[Fault]:
    """From the earliest kept position to the tail, all data is there, the inherited part included."""
    head = end_of_log(db)
    for path, state in each(db, STREAMS):
        if max(state.topic, state.last_id) > head:
            newest = max(state.topic, state.last_id)
            yield Fault("head", f"stream {path!r} was written by {newest}, but the log ends at {head}")
        if state.deleted:
            continue
        begin = find_description(db, state.topic)
        if begin is None or (begin.path, begin.read_seq) != (path, state.read_seq):
            yield Fault("stream", f"stream {path!r}: its topic {state.topic} was not created for it")
        reached = 0
        for segment in (*state.lineage, Segment(state.topic, state.tail)):
            yield from _check_run(db, path, segment.topic, max(reached, state.earliest), segment.end)
            reached = segment.end
        past = db.execute(DATA, (state.topic, state.tail)).fetchone()
        if past is not None and past[1] is not None:
            yield Fault("stream", f"stream {path!r} ends at {state.tail}, but has data up to {past[1]}")


def _check_run(db: apsw.Connection, path: str, topic: TopicId, start: int, end: int) -> Iterator[Fault]:
    """That gaps within a topic are found by the store's own rule is presumed: only the ends are looked at."""
    if start >= end:
        return
    first, last = db.execute(DATA, (topic, start)).fetchone() or (None, None)
    if first is None or last is None:
        yield Fault("stream", f"stream {path!r}: the data from {start} to {end} is missing")
    elif first > start:
        yield Fault("stream", f"stream {path!r}: the data from {start} to {first} is missing")
    elif last < end:
        yield Fault("stream", f"stream {path!r}: the data from {last} to {end} is missing")


def find_description(db: apsw.Connection, topic: int) -> CreateDescription | None:
    row = db.execute(f"SELECT data FROM records WHERE committed_id = ? AND kind = {Kind.CREATE:d}", (topic,)).fetchone()
    try:
        return None if row is None else msgspec.json.decode(row[0], type=CreateDescription)
    except (msgspec.MsgspecError, ValueError):
        return None


def check_forks(db: apsw.Connection) -> Iterator[Fault]:
    """A stream counts the forks that keep its data: those that are there, and those that are being erased."""
    counted: Counter[tuple[str, int]] = Counter()
    for _, state in each(db, STREAMS):
        if state.origin is not None:
            counted[state.origin.path, state.origin.topic] += 1
    for _, garbage in each(db, GARBAGE):
        if garbage.origin is not None:
            counted[garbage.origin.path, garbage.origin.topic] += 1
    for path, state in each(db, STREAMS):
        found = counted.pop((path, state.topic), 0)
        if found != state.forks:
            yield Fault("fork", f"stream {path!r} counts {state.forks} forks, but {found} name it as their source")
        if state.soft_deleted and not state.forks:
            yield Fault("fork", f"stream {path!r} is kept for forks, but has none")
    for path, topic in counted:
        yield Fault("fork", f"a fork names {path!r} (topic {topic}) as its source, and there is no such stream")


def check_owners(db: apsw.Connection) -> Iterator[Fault]:
    """Data belongs to a stream, or to one that is being erased."""
    topic = 0
    while True:
        row = db.execute("SELECT topic FROM places WHERE topic > ? ORDER BY topic LIMIT 1", (topic,)).fetchone()
        if row is None:
            return
        topic = row[0]
        begin = find_description(db, topic)
        if not is_owned(db, None if begin is None else begin.path, topic):
            yield Fault("stream", f"topic {topic} has data, but belongs to no stream")


def is_owned(db: apsw.Connection, path: str | None, topic: int) -> bool:
    state: StreamState | None = None if path is None else find(db, stream_key(path))
    if state is not None and state.topic == topic and not state.deleted:
        return True
    garbage: Garbage | None = find(db, garbage_key(TopicId(topic)))
    return garbage is not None


def check_producers(db: apsw.Connection) -> Iterator[Fault]:
    for name, state in each(db, PRODUCERS):
        path, _, producer_id = name.partition("\0")
        if not is_owned(db, path, state.topic):
            yield Fault("producer", f"producer {producer_id!r} belongs to no stream at {path!r} (topic {state.topic})")


def check_retention(db: apsw.Connection) -> Iterator[Fault]:
    """A stream that keeps only a part of its data is looked at again. So may be one that gave up data once."""
    for path, _ in each(db, RETENTION_CHECKS):
        if find(db, stream_key(path)) is None:
            yield Fault("retention", f"a check is planned for {path!r}, and there is no such stream")
    for path, stream in each(db, STREAMS):
        if stream.retention is not None and find(db, retention_key(path)) is None:
            yield Fault("retention", f"stream {path!r} has a retention, but no check is planned")


# Events

EVENTS = f"SELECT committed_id, source, data FROM records WHERE kind = {Kind.EVENT:d}"


def check_events(db: apsw.Connection) -> Iterator[Fault]:
    """Each event has its entry in the index of ids, with the hash of its content, and a tag for each partition."""
    tags = 0
    for committed_id, source, data in db.execute(EVENTS):
        try:
            event = decode_stored(data)
            digest = content_hash(event.partitions, bytes(event.event))
        except (msgspec.MsgspecError, ValueError, ValidationFailed):
            yield Fault("event", f"event {committed_id} cannot be decoded")
            continue
        tags += len(event.partitions)
        yield from _check_event(db, committed_id, source, event, digest)
    kept = db.execute("SELECT count(*) FROM tags").get
    if kept > tags:
        yield Fault("tag", f"there are {kept} tags, but the events are in {tags} partitions")


def _check_event(
    db: apsw.Connection, committed_id: int, source: str | None, event: StoredEvent, digest: bytes
) -> Iterator[Fault]:
    entry: EventEntry | None = find(db, event_key(event.id))
    if entry is None:
        yield Fault("event", f"event {committed_id} has the id {event.id!r}, which the index of ids does not know")
    elif entry.committed_id != committed_id:
        yield Fault("event", f"the id {event.id!r} was committed as {entry.committed_id}, and is also {committed_id}")
    elif entry.digest != digest:
        yield Fault("event", f"event {committed_id} is not what was committed: its hash differs")
    if source != event.client_id:
        yield Fault("event", f"event {committed_id} names {event.client_id!r}, its record {source!r}")
    for partition in event.partitions:
        if not db.execute("SELECT 1 FROM tags WHERE tag = ? AND committed_id = ?", (partition, committed_id)).get:
            yield Fault("tag", f"event {committed_id} is in {partition!r}, but has no tag there")


def check_event_ids(db: apsw.Connection) -> Iterator[Fault]:
    """An id without an event is the tombstone of a pruned one, so it lies below the floor of some partition."""
    head = end_of_log(db)
    floor = max((state.floor for _, state in each(db, PARTITIONS)), default=0)
    for event_id, entry in each(db, EVENT_IDS):
        if entry.committed_id > head:
            yield Fault("head", f"event {event_id!r} was committed as {entry.committed_id}, but the log ends at {head}")
        elif entry.committed_id > floor and not _is_event(db, entry.committed_id):
            yield Fault("event", f"event {event_id!r} ({entry.committed_id}) is gone, though nothing pruned it")


def _is_event(db: apsw.Connection, committed_id: int) -> bool:
    found = db.execute(f"SELECT 1 FROM records WHERE committed_id = ? AND kind = {Kind.EVENT:d}", (committed_id,))
    return found.get is not None


def check_partitions(db: apsw.Connection) -> Iterator[Fault]:
    head = end_of_log(db)
    for name, state in each(db, PARTITIONS):
        if max(state.floor, state.snapshot_id, state.pruned) > head:
            yield Fault("head", f"partition {name!r} was changed beyond the end of the log, {head}")
        snapshot: Snapshot | None = find(db, Key(SNAPSHOTS, name))
        if (0 if snapshot is None else snapshot.committed_id) != state.snapshot_id:
            yield Fault("partition", f"partition {name!r}: its snapshot does not end at {state.snapshot_id}")
