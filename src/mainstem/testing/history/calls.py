"""The calls of a history: what a client asked for, when, and what it learned.

A call that was never answered has no `end`: it may have taken effect at any time since its start, or never; if its
server ended, it has `lapsed` then, and cannot take effect any more. A call with a `refusal` has changed nothing. All
times come from one clock, and their unit does not matter: a call is known to precede another if its end is less than
the start of the other.

Messages must be unique in a history, so that each can be found wherever it appears. Only the retries of a producer may
repeat them, and only if the stream is not deleted meanwhile: its next incarnation does not know the producer. A message
takes its UTF-8 bytes and one more in its stream: the comma in JSON, a line feed in text.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple


class Event(NamedTuple):
    """A committed event as a page, a broadcast or the log shows it."""

    committed_id: int
    id: str
    partitions: tuple[str, ...]
    content: str


class Row(NamedTuple):
    """A message of a stream as the log shows it. Messages of one append share a committed id."""

    committed_id: int
    path: str
    start: Offset
    message: str


class Call(msgspec.Struct, kw_only=True, tag=True, omit_defaults=True):
    """What all calls have in common."""

    client: str
    """One connection of one client: pages and broadcasts of the same name belong together."""
    node: str = ""
    """The server that it asked, for people to read. The rules are the same for one node and for many."""
    start: float = 0.0
    end: float | None = None
    lapsed: float | None = None
    """When a call without an answer could no longer take effect, if that is known."""
    refusal: str | None = None
    """Why the server refused the call: the code of its error."""

    @property
    def accepted(self) -> bool:
        return self.end is not None and self.refusal is None

    @property
    def refused(self) -> bool:
        return self.end is not None and self.refusal is not None

    @property
    def latest(self) -> float:
        """The time by which an accepted call had taken effect, and another one had if it did so at all."""
        if self.end is not None:
            return self.end
        return inf if self.lapsed is None else self.lapsed


# Streams


class Create(Call, kw_only=True):
    """A PUT. All those of one path ask for the same stream; the path of a fork is used for this fork only."""

    path: str
    ttl: float | None = None
    """How long after its last use the stream expires."""
    bytes_kept: int | None = None
    """How much of the stream is kept at least, if its oldest appends are trimmed."""
    source: str = ""
    """The path of the stream that is forked."""
    fork_point: Offset | None = None
    """The offset of the source at which the fork branches off."""
    new: bool = False
    """Whether the server says that the stream did not exist before."""
    next: Offset | None = None


class Append(Call, kw_only=True):
    """An append, a close, or both: a close has no messages."""

    path: str
    messages: tuple[str, ...] = ()
    closes: bool = False
    if_match: Offset | None = None
    producer: ProducerTuple | None = None
    duplicate: bool = False
    """Whether the server says that it had stored this sequence number before."""
    next: Offset | None = None
    """The end of the stream, as the reply says; a refusal with `stream_closed` or `tail_moved` says it, too."""
    closed: bool = False
    """Whether the reply says that the stream is closed."""

    @property
    def known_start(self) -> Offset | None:
        """Where the server says that it stored the messages. A duplicate was stored at an earlier time, anywhere."""
        if not self.accepted or self.duplicate or self.next is None:
            return None
        return Offset(self.next.read_seq, self.next.position - size_of(self.messages))


class Delete(Call, kw_only=True):
    path: str


class Head(Call, kw_only=True):
    path: str
    next: Offset | None = None
    closed: bool = False
    earliest: Offset | None = None
    """The start of the stream, if its oldest appends are trimmed."""


class Read(Call, kw_only=True):
    """One page of a stream, or one step of a live read."""

    path: str
    since: Offset | None = None
    """Where the reader continued; None for the beginning, or the last messages."""
    tail: int | None = None
    """How many of the last messages the reader asked for, in a JSON stream."""
    live: bool = False
    """Whether the reader waited for this, so that it may not know the newest data."""
    messages: tuple[str, ...] = ()
    next: Offset | None = None
    up_to_date: bool = False
    closed: bool = False
    earliest: Offset | None = None
    """The start of the stream, if its oldest appends are trimmed: as a page from the beginning shows it, or as a
    refusal with `offset_gone` says."""

    @property
    def first(self) -> Offset | None:
        """The position of the first message. Of the last messages, only the end is known."""
        if self.since is not None or self.next is None:
            return self.since
        if self.tail is not None:
            return Offset(self.next.read_seq, self.next.position - size_of(self.messages))
        return Offset(self.next.read_seq, 0) if self.earliest is None else self.earliest


# The sync protocol


class Submit(Call, kw_only=True):
    """One event of a submission; the events of a request are calls with the same times."""

    id: str
    partitions: tuple[str, ...]
    content: str
    """The event as JSON text; retries must have the same text."""
    committed_id: int | None = None


class SyncPage(Call, kw_only=True):
    partitions: tuple[str, ...]
    since: int
    subscribes: bool = False
    """Whether the connection also asked for broadcasts of exactly these partitions from now on."""
    events: tuple[Event, ...] = ()
    next: int = 0
    sync_to: int = 0
    has_more: bool = False
    truncated: tuple[str, ...] = ()
    """The partitions of which the page says that history is gone, with a snapshot in its place or without."""


class Prune(Call, kw_only=True):
    """A request to erase each event that the floors of all its partitions have reached."""

    floors: dict[str, int]


class PartitionPage(Call, kw_only=True):
    """A page of a partition over HTTP, where an offset is a committed id."""

    partition: str
    since: int
    events: tuple[Event, ...] = ()
    next: int = 0
    up_to_date: bool = False


class Broadcast(Call, kw_only=True):
    """An event that arrived at a subscribed connection. Its start is the time at which its connection was opened."""

    event: Event


# The log


class LogPage(Call, kw_only=True):
    """A page of `/v1/log`."""

    after: int
    rows: tuple[Row, ...] = ()
    events: tuple[Event, ...] = ()
    next: int = 0
    up_to_date: bool = False


AnyCall = Create | Append | Delete | Head | Read | Submit | SyncPage | Prune | PartitionPage | Broadcast | LogPage

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[AnyCall] = msgspec.json.Decoder(AnyCall)


def size_of(messages: Iterable[str]) -> int:
    """Return how many bytes of a stream the messages take."""
    return sum(len(message.encode()) + 1 for message in messages)


def encode_call(call: Call) -> bytes:
    """Return the call as one line of a history file."""
    return _encode(call) + b"\n"


def decode_call(line: bytes) -> AnyCall:
    return _decoder.decode(line)
