"""Rules for records, topics, tags and states that hold for every protocol."""

from collections.abc import Iterator

import msgspec

from mainstem.log.commands import Space
from mainstem.log.identity import IDENTITY, IDENTITY_KEY
from mainstem.log.records import Kind
from mainstem.log.store.snapshot import Finding, RecordOutline, StoreSnapshot, batches

OF_A_TOPIC = (Kind.APPEND, Kind.CLOSE, Kind.DELETE, Kind.TRIM)


def check_head(snapshot: StoreSnapshot) -> Iterator[Finding]:
    heads = snapshot.noted_heads()
    if len(heads) != 1:
        yield Finding("head", "the table head does not have exactly one row")
    elif heads[0] < 0:
        yield Finding("head", f"the stored head is negative: {heads[0]}")


def check_identity(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check the id and the epochs. A store that no server of this version has opened has none."""
    head = snapshot.find_head()
    for name, identity in snapshot.scan_states(IDENTITY):
        starts = [epoch.after for epoch in identity.epochs]
        if name != IDENTITY_KEY.name or not identity.id or not starts:
            yield Finding("identity", f"the identity {name!r} of the log is incomplete")
        elif starts != sorted(set(starts)) or starts[0] < 0:
            yield Finding("identity", f"the epochs of the log do not follow each other: they begin after {starts}")
        elif starts[-1] > head:
            yield Finding("identity", f"an epoch of the log begins after {starts[-1]}, but the log ends at {head}")


def check_records(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check each record on its own, and that the ids ascend."""
    last = 0
    for record in snapshot.scan_records():
        if not is_consistent(record):
            yield Finding("record", f"record {record.committed_id} of kind {record.kind} contradicts itself")
        if record.committed_id <= last:
            yield Finding("record", f"record {record.committed_id} comes after record {last}")
        last = record.committed_id


def is_consistent(record: RecordOutline) -> bool:
    committed_id, kind, topic, start, end, messages, data_bytes = record
    if committed_id < 1 or not 0 <= start <= end or messages < 0:
        return False
    match kind:
        case Kind.CREATE:
            return topic == committed_id
        case Kind.APPEND:
            return 1 <= topic < committed_id and start < end and data_bytes == end - start and messages >= 1
        case Kind.CLOSE | Kind.DELETE | Kind.TRIM:
            return 1 <= topic < committed_id
        case Kind.EVENT | Kind.PRUNE:
            return topic == 0
        case _:
            return False


def check_topics(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that each topic's data has no gaps and is in committed order, and that a record creates the topic."""
    yield from check_runs(snapshot)
    for topics in batches(snapshot.scan_topics(*OF_A_TOPIC)):
        created = snapshot.find_creates(topics)
        for topic in topics:
            if topic not in created:
                yield Finding("topic", f"topic {topic} has records, but no record creates it")


def check_runs(snapshot: StoreSnapshot) -> Iterator[Finding]:
    before = None
    for append in snapshot.scan_appends():
        if before is not None and before.topic == append.topic:
            where = f"topic {append.topic}: record {append.committed_id}"
            if before.end != append.start:
                yield Finding("topic", f"{where} begins at {append.start}, not at {before.end}")
            elif before.committed_id >= append.committed_id:
                yield Finding("topic", f"{where} was committed before {before.committed_id}")
        before = append


def check_tags(snapshot: StoreSnapshot) -> Iterator[Finding]:
    for tags in batches(snapshot.scan_tags()):
        kinds = snapshot.find_kinds(sorted({committed_id for _, committed_id in tags}))
        for tag, committed_id in tags:
            if kinds.get(committed_id) != Kind.EVENT:
                yield Finding("tag", f"the tag {tag!r} refers to event {committed_id}, which does not exist")


def check_states(snapshot: StoreSnapshot) -> Iterator[Finding]:
    for number, name, due_us, value in snapshot.scan_stored_states():
        space = Space.declared.get(number)
        if space is None:
            yield Finding("state", f"{name!r} is in space {number}, which this version of mainstem does not know")
            continue
        try:
            state = space.decode(value)
        except (msgspec.MsgspecError, ValueError):
            yield Finding("state", f"the state of {name!r} in space {number} cannot be decoded")
            continue
        if space.due(state) != due_us:
            due = space.due(state)
            yield Finding("state", f"the state of {name!r} in space {number} is due at {due}, not at {due_us}")
