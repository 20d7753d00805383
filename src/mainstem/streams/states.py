"""What is durable about a stream besides its data, and where it is kept in the log's state spaces."""

import msgspec

from mainstem.log.commands import Key, Space
from mainstem.log.records import TopicId
from mainstem.log.spaces import SpaceNumber
from mainstem.streams.rules.offsets import Offset


class ProducerTuple(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One producer request, named so that its retry can be recognised."""

    id: str
    epoch: int
    seq: int


class Segment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Inherited data: from the previous segment's end up to `end`, the bytes lie in this topic."""

    topic: TopicId
    end: int


class Origin(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where a fork branched off, as it was asked for: a repeated PUT must compare equal."""

    path: str
    topic: TopicId
    anchor: int
    sub_offset: int


class Retention(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How much of a stream is kept; None is without bound."""

    max_age_s: int | None = None
    max_bytes: int | None = None
    max_messages: int | None = None


class StreamState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stream, alive or deleted. New fields go last and have a default, so that older files stay readable."""

    topic: TopicId
    read_seq: int
    content_type: str
    tail: int
    created_at_us: int
    closed: bool = False
    closed_by: ProducerTuple | None = None
    last_seq: str | None = None
    ttl_s: int | None = None
    expires_at_us: int | None = None
    """The absolute expiry, or with a TTL the end of the window as far as it is durable."""
    expires_at_text: str | None = None
    """An absolute expiry as the client wrote it, for HEAD to echo."""
    deleted: bool = False
    """Gone for good: only the readSeq still counts."""
    soft_deleted: bool = False
    """Gone for clients, but forks still read its data."""
    forks: int = 0
    """How many streams name this one as their origin."""
    origin: Origin | None = None
    lineage: tuple[Segment, ...] = ()
    """A fork's inherited data, oldest first: the chain is flattened, so a read never walks it."""
    earliest: int = 0
    """Data before this position is no longer kept."""
    retention: Retention | None = None
    messages: int = 0
    """How many messages this stream has taken itself and still keeps."""
    last_id: int = 0
    """The committed id of its newest data."""

    @property
    def next_offset(self) -> Offset:
        return Offset(self.read_seq, self.tail)

    @property
    def earliest_offset(self) -> Offset:
        return Offset(self.read_seq, self.earliest)


class ProducerState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last accepted request of one producer on one life of a stream."""

    topic: TopicId
    epoch: int
    last_seq: int


class Garbage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A deleted stream whose data has not been erased yet."""

    path: str
    topic: TopicId
    origin: Origin | None = None


class RetentionCheck(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """When to look again at a stream that keeps only a part of its data."""

    topic: TopicId
    due_us: int


class StreamSnapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one life of a JSON stream comes to, up to a committed id and an offset. Another life has none of it."""

    topic: TopicId
    committed_id: int
    position: int
    """A reader of the snapshot goes on from here."""
    state: bytes
    """JSON as it was put."""
    created_at_us: int


def _expiry(state: StreamState) -> int | None:
    return None if state.deleted or state.soft_deleted else state.expires_at_us


def _next_check(check: RetentionCheck) -> int:
    return check.due_us


STREAMS: Space[StreamState] = Space(SpaceNumber.STREAMS, StreamState, due=_expiry)
PRODUCERS: Space[ProducerState] = Space(SpaceNumber.PRODUCERS, ProducerState)
GARBAGE: Space[Garbage] = Space(SpaceNumber.GARBAGE, Garbage)
RETENTION_CHECKS: Space[RetentionCheck] = Space(SpaceNumber.RETENTION_CHECKS, RetentionCheck, due=_next_check)
STREAM_SNAPSHOTS: Space[StreamSnapshot] = Space(SpaceNumber.STREAM_SNAPSHOTS, StreamSnapshot, cached=False)


def stream_key(path: str) -> Key:
    return Key(STREAMS, path)


def producer_key(path: str, producer_id: str) -> Key:
    """NUL cannot stand in a path, so no two pairs share a key and a path's producers are one range."""
    return Key(PRODUCERS, f"{path}\0{producer_id}")


def garbage_key(topic: TopicId) -> Key:
    return Key(GARBAGE, f"{topic:016d}")


def retention_key(path: str) -> Key:
    return Key(RETENTION_CHECKS, path)


def stream_snapshot_key(path: str) -> Key:
    return Key(STREAM_SNAPSHOTS, path)
