"""Rules for streams, forks, producers and retention."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.log.records import Kind, TopicId
from mainstem.log.store.snapshot import Finding, StoreSnapshot, batches
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.states import (
    GARBAGE,
    PRODUCERS,
    RETENTION_CHECKS,
    STREAMS,
    Segment,
    StreamState,
    garbage_key,
)


def check_streams(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that each stream has all its data from its earliest position to its end, including inherited data."""
    head = snapshot.find_head()
    for streams in batches(snapshot.scan_states(STREAMS)):
        topics = {topic for _, state in streams for topic in (state.topic, *(part.topic for part in state.lineage))}
        extents = {topic: extent for some in batches(topics) for topic, extent in snapshot.find_extents(some).items()}
        descriptions = find_descriptions(snapshot, [state.topic for _, state in streams])
        for path, state in streams:
            newest = max(state.topic, state.last_id)
            if newest > head:
                yield Finding("head", f"stream {path!r} was last written by {newest}, but the log ends at {head}")
            if state.deleted:
                continue
            description = descriptions.get(state.topic)
            if description is None or (description.path, description.read_seq) != (path, state.read_seq):
                yield Finding("stream", f"stream {path!r}: its topic {state.topic} was not created for it")
            yield from _check_data(path, state, extents)


def _check_data(path: str, state: StreamState, extents: dict[int, tuple[int, int]]) -> Iterator[Finding]:
    """Compare the ends of each topic only: the rule for topics finds the gaps within one."""
    segment_start = 0
    for segment in (*state.lineage, Segment(state.topic, state.tail)):
        start, end = max(segment_start, state.earliest), segment.end
        segment_start = segment.end
        if start >= end:
            continue
        first, last = extents.get(segment.topic, (0, 0))
        if last <= start:
            yield Finding("stream", f"stream {path!r}: the data from {start} to {end} is missing")
        elif first > start:
            yield Finding("stream", f"stream {path!r}: the data from {start} to {first} is missing")
        elif last < end:
            yield Finding("stream", f"stream {path!r}: the data from {last} to {end} is missing")
    _, last = extents.get(state.topic, (0, 0))
    if last > state.tail:
        yield Finding("stream", f"stream {path!r} ends at {state.tail}, but has data up to {last}")


def find_descriptions(snapshot: StoreSnapshot, topics: Sequence[int]) -> dict[int, CreateDescription]:
    """Return the description of the stream that each topic was created for, without those that cannot be decoded."""
    descriptions: dict[int, CreateDescription] = {}
    for topic, data in snapshot.find_creates(topics).items():
        try:
            descriptions[topic] = msgspec.json.decode(data, type=CreateDescription)
        except (msgspec.MsgspecError, ValueError):
            continue
    return descriptions


def check_forks(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check each stream's count of forks that need its data: existing forks, and forks that are being erased."""
    counted: Counter[tuple[str, int]] = Counter()
    for _, state in snapshot.scan_states(STREAMS):
        if state.origin is not None:
            counted[state.origin.path, state.origin.topic] += 1
    for _, garbage in snapshot.scan_states(GARBAGE):
        if garbage.origin is not None:
            counted[garbage.origin.path, garbage.origin.topic] += 1
    for path, state in snapshot.scan_states(STREAMS):
        found = counted.pop((path, state.topic), 0)
        if found != state.forks:
            yield Finding("fork", f"stream {path!r} counts {state.forks} forks, but {found} name it as their source")
        if state.soft_deleted and not state.forks:
            yield Finding("fork", f"the deleted stream {path!r} is kept for its forks, but has none")
    for path, topic in counted:
        yield Finding("fork", f"a fork names {path!r} (topic {topic}) as its source, which does not exist")


def check_owners(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that all data belongs to a stream, or to a deleted stream that is being erased."""
    for topics in batches(snapshot.scan_topics(Kind.APPEND)):
        descriptions = find_descriptions(snapshot, topics)
        pairs = [(descriptions[topic].path if topic in descriptions else "", topic) for topic in topics]
        owned = find_owned(snapshot, pairs)
        for pair in pairs:
            if pair not in owned:
                yield Finding("stream", f"topic {pair[1]} has data, but belongs to no stream")


def check_producers(snapshot: StoreSnapshot) -> Iterator[Finding]:
    for producers in batches(snapshot.scan_states(PRODUCERS)):
        owned = find_owned(snapshot, [(name.partition("\0")[0], state.topic) for name, state in producers])
        for name, state in producers:
            path, _, producer_id = name.partition("\0")
            if (path, state.topic) not in owned:
                detail = f"producer {producer_id!r} belongs to no stream at {path!r} (topic {state.topic})"
                yield Finding("producer", detail)


def find_owned(snapshot: StoreSnapshot, pairs: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return the (path, topic) pairs that belong to a stream, or to a deleted stream that is being erased."""
    streams = snapshot.find_states(STREAMS, [path for path, _ in pairs])
    alive = {(path, state.topic) for path, state in streams.items() if not state.deleted}
    erased = snapshot.find_states(GARBAGE, [_name_garbage(topic) for _, topic in pairs])
    return {pair for pair in pairs if pair in alive or _name_garbage(pair[1]) in erased}


def _name_garbage(topic: int) -> str:
    return garbage_key(TopicId(topic)).name


def check_retention(snapshot: StoreSnapshot) -> Iterator[Finding]:
    """Check that a retention check is planned for each stream with a retention, and for existing streams only.

    A stream without a retention may have one too, if it was trimmed before.
    """
    for paths in batches(path for path, _ in snapshot.scan_states(RETENTION_CHECKS)):
        streams = snapshot.find_states(STREAMS, paths)
        for path in paths:
            if path not in streams:
                yield Finding("retention", f"a check is planned for stream {path!r}, which does not exist")
    kept = (path for path, stream in snapshot.scan_states(STREAMS) if stream.retention is not None)
    for paths in batches(kept):
        planned = snapshot.find_states(RETENTION_CHECKS, paths)
        for path in paths:
            if path not in planned:
                yield Finding("retention", f"stream {path!r} has a retention, but no check is planned")
