"""What is durable about a stream besides its data, and where it is kept in the log's state spaces."""

import msgspec

from mainstem.log.commands import Key, Space
from mainstem.log.records import TopicId
from mainstem.streams.offsets import Offset


class ProducerTuple(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One producer request, named so that its retry can be recognised."""

    id: str
    epoch: int
    seq: int


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
    """An absolute expiry as the client wrote it: a repeated PUT must compare equal, HEAD must echo it."""
    deleted: bool = False

    @property
    def next_offset(self) -> Offset:
        return Offset(self.read_seq, self.tail)


class ProducerState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last accepted request of one producer on one life of a stream."""

    topic: TopicId
    epoch: int
    last_seq: int


class Garbage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A deleted stream whose data has not been erased yet."""

    path: str
    topic: TopicId


def _expiry(state: StreamState) -> int | None:
    return None if state.deleted else state.expires_at_us


STREAMS: Space[StreamState] = Space(1, StreamState, due=_expiry)
PRODUCERS: Space[ProducerState] = Space(2, ProducerState)
GARBAGE: Space[Garbage] = Space(3, Garbage)


def stream_key(path: str) -> Key:
    return Key(STREAMS, path)


def producer_key(path: str, producer_id: str) -> Key:
    """NUL cannot stand in a path, so no two pairs share a key and a path's producers are one range."""
    return Key(PRODUCERS, f"{path}\0{producer_id}")


def garbage_key(topic: TopicId) -> Key:
    return Key(GARBAGE, f"{topic:016d}")
