"""Records: each is one accepted change, at one position in the global order."""

from enum import IntEnum
from typing import NewType

import msgspec

CommittedId = NewType("CommittedId", int)
"""The position of a record in the log: it grows by one per record and is never reused, even across restarts."""

TopicId = NewType("TopicId", int)
"""The sequence that a record belongs to, named by the committed id of the record that created it."""


RECORD_BYTES = 100
"""What a record adds to the size of a page besides its data, so that records without data fill pages too."""


class Kind(IntEnum):
    """What a record says. The numbers are on disk: add new ones, never change one."""

    CREATE = 1
    APPEND = 2
    CLOSE = 3
    DELETE = 4
    TRIM = 5
    EVENT = 6
    PRUNE = 7


DATA_KINDS = (Kind.APPEND, Kind.EVENT)
"""The kinds that hold what clients wrote; the others record changes to streams and partitions."""
KINDS = {kind.value: kind for kind in Kind}
"""By number: much faster than a call of `Kind` for each record of a large page."""


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One accepted change. `start` and `end` are positions in its topic; `data` is the wire bytes between them."""

    committed_id: CommittedId
    committed_at_us: int
    kind: Kind
    topic: TopicId
    start: int
    end: int
    messages: int
    data: bytes
    source: str | None = None
    """The producer or client that wrote it."""
    tags: tuple[str, ...] = ()
    """Names that it is indexed under. Stores keep them in the index only, so only a new record has them here."""
    origin: int = 0
    """The connection that submitted it. Used for live delivery only, never stored."""


class Outline(msgspec.Struct, frozen=True, gc=False):
    """A data record of a topic, without its data."""

    start: int
    end: int
    messages: int
    committed_at_us: int
    committed_id: CommittedId = CommittedId(0)


class Extent(msgspec.Struct, frozen=True, gc=False):
    """How much data a part of the log holds, and the id that it ends with."""

    until: int
    rows: int
    bytes: int


class Size(msgspec.Struct, frozen=True, gc=False):
    """How much data a range of the log holds."""

    rows: int
    bytes: int


class Counts(msgspec.Struct, frozen=True, gc=False):
    """How much the log holds: appends to streams, events, and the messages and bytes of both."""

    appends: int
    events: int
    rows: int
    bytes: int


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Consecutive bytes of one topic, as a reader gets them."""

    start: int
    end: int
    data: bytes
