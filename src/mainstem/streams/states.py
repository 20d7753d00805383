"""The durable states of streams, besides their data, and their keys in the log's state spaces."""

from functools import lru_cache

import msgspec

from mainstem import limits
from mainstem.log.commands import Key, Space
from mainstem.log.records import TopicId
from mainstem.log.spaces import SpaceNumber
from mainstem.streams.rules.offsets import Offset


class ProducerTuple(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Identifies one request of a producer, so that a retry of it can be recognised."""

    id: str
    epoch: int
    seq: int


class Segment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Inherited data: this topic holds the bytes from the end of the previous segment up to `end`."""

    topic: TopicId
    end: int


class Origin(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The point where a fork branches off, as the client requested it, so that a repeated PUT can be compared."""

    path: str
    topic: TopicId
    anchor: int
    sub_offset: int


class Retention(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How much of a stream is kept; None means no limit."""

    max_age_s: int | None = None
    max_bytes: int | None = None
    max_messages: int | None = None


class StreamState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stream, alive or deleted. New fields must come last and have a default, so that older data stays readable."""

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
    """The absolute expiry; with a TTL, the end of the current window, without reads that are not durable yet."""
    expires_at_text: str | None = None
    """An absolute expiry as the client wrote it, for HEAD to return."""
    deleted: bool = False
    """Deleted for good: only `read_seq` still matters."""
    soft_deleted: bool = False
    """Deleted for clients, but forks still read its data."""
    forks: int = 0
    """The number of streams whose origin is this one."""
    origin: Origin | None = None
    lineage: tuple[Segment, ...] = ()
    """The inherited data of a fork, oldest first. The chain of forks is flattened, so a read never walks it."""
    earliest: int = 0
    """The position before which data is no longer kept."""
    retention: Retention | None = None
    messages: int = 0
    """The number of messages that were appended to this stream itself and are still kept."""
    last_id: int = 0
    """The committed id of its newest data."""
    pruned_id: int = 0
    """The committed id of the newest data that was trimmed. A deleted stream keeps it, but it no longer counts."""

    @property
    def next_offset(self) -> Offset:
        return Offset(self.read_seq, self.tail)

    @property
    def earliest_offset(self) -> Offset:
        return Offset(self.read_seq, self.earliest)


class ProducerState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last accepted request of one producer to one incarnation of a stream."""

    topic: TopicId
    epoch: int
    last_seq: int


class Garbage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A deleted stream whose data has not been erased yet."""

    path: str
    topic: TopicId
    origin: Origin | None = None


class RetentionCheck(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """When to check again whether a stream must be trimmed."""

    topic: TopicId
    due_us: int


class StreamSnapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The snapshot of one incarnation of a JSON stream, up to a committed id and an offset. It does not apply to later
    incarnations at the same path."""

    topic: TopicId
    committed_id: int
    position: int
    """The position from which a reader of the snapshot continues."""
    state: bytes
    """The JSON text, exactly as the client sent it."""
    created_at_us: int


class JobRound(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last round that a job has reported."""

    report: bytes
    """The JSON text, as `GET /v1/jobs` returns it."""
    reported_at_us: int
    position: int
    """The committed id that the job has reached."""
    clean: bool
    """Whether the round ended without an error and without faults."""


def _expiry(state: StreamState) -> int | None:
    return None if state.deleted or state.soft_deleted else state.expires_at_us


def _next_check(check: RetentionCheck) -> int:
    return check.due_us


STREAMS: Space[StreamState] = Space(SpaceNumber.STREAMS, StreamState, due=_expiry)
PRODUCERS: Space[ProducerState] = Space(SpaceNumber.PRODUCERS, ProducerState)
GARBAGE: Space[Garbage] = Space(SpaceNumber.GARBAGE, Garbage)
RETENTION_CHECKS: Space[RetentionCheck] = Space(SpaceNumber.RETENTION_CHECKS, RetentionCheck, due=_next_check)
STREAM_SNAPSHOTS: Space[StreamSnapshot] = Space(SpaceNumber.STREAM_SNAPSHOTS, StreamSnapshot, cached=False)
JOBS: Space[JobRound] = Space(SpaceNumber.JOBS, JobRound)


@lru_cache(limits.KEYS_CACHED_MAX)
def stream_key(path: str) -> Key:
    return Key(STREAMS, path)


@lru_cache(limits.KEYS_CACHED_MAX)
def producer_key(path: str, producer_id: str) -> Key:
    """Return the key of a producer. Paths never contain NUL, so keys are unique, and the producers of a path form one
    range."""
    return Key(PRODUCERS, f"{path}\0{producer_id}")


def garbage_key(topic: TopicId) -> Key:
    return Key(GARBAGE, f"{topic:016d}")


def retention_key(path: str) -> Key:
    return Key(RETENTION_CHECKS, path)


def stream_snapshot_key(path: str) -> Key:
    return Key(STREAM_SNAPSHOTS, path)


def job_key(job: str, name: str) -> Key:
    return Key(JOBS, f"{job}/{name}")
