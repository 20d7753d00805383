"""What a committed record is: one accepted change, at one place in the one global order."""

from enum import IntEnum
from typing import NewType

import msgspec

CommittedId = NewType("CommittedId", int)
"""Global, increasing by one, never reused, also over restarts."""

TopicId = NewType("TopicId", int)
"""Which sequence a record belongs to: the committed id of the record that created it."""


RECORD_BYTES = 100
"""What a record counts for in a page besides its data, so that pages of records without data end too."""


class Kind(IntEnum):
    """What happened. The numbers are on disk: add, never change."""

    CREATE = 1
    APPEND = 2
    CLOSE = 3
    DELETE = 4
    TRIM = 5
    EVENT = 6
    PRUNE = 7


DATA_KINDS = (Kind.APPEND, Kind.EVENT)
"""What clients wrote; the other kinds tell of changes to streams and partitions."""
KINDS = {kind.value: kind for kind in Kind}
"""By number: a page of a million records must not ask the enum a million times."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One accepted change. `start` and `end` are positions in its topic; `data` are the wire bytes between them."""

    committed_id: CommittedId
    committed_at_us: int
    kind: Kind
    topic: TopicId
    start: int
    end: int
    messages: int
    data: bytes
    source: str | None = None
    """Who wrote it: a producer's or a client's id."""
    tags: tuple[str, ...] = ()
    """What it is found by besides its topic. Stored as an index, so only a record that was just committed has it."""
    origin: int = 0
    """Which connection brought it, for live delivery alone; never stored."""


class Outline(msgspec.Struct, frozen=True, gc=False):
    """A record of a topic without its data."""

    start: int
    end: int
    messages: int
    committed_at_us: int
    committed_id: CommittedId = CommittedId(0)


class Extent(msgspec.Struct, frozen=True, gc=False):
    """A run of the log up to an id, and how much data it holds."""

    until: int
    rows: int
    bytes: int


class Counts(msgspec.Struct, frozen=True, gc=False):
    """How much the log keeps: appends to streams, events, and the messages and bytes in both."""

    appends: int
    events: int
    rows: int
    bytes: int


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A run of one topic's bytes: what a reader gets."""

    start: int
    end: int
    data: bytes
