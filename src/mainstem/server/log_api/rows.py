"""From records to rows: one row per message, without an object per message, as Arrow needs them."""

import logging
from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise, repeat

import msgspec

from mainstem.log.records import Kind, Record, TopicId
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.rules import json_mode
from mainstem.streams.rules.content_types import is_json
from mainstem.sync.protocol.messages import decode_stored

logger = logging.getLogger(__name__)

Names = Mapping[TopicId, CreateDescription]
"""The name and content type of each topic, from its CREATE record."""

DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

EVENT = Kind.EVENT  # looking up a member of an enum takes longer than the comparison
SEPARATOR = b","
WITH_SEPARATOR = (1).__add__
"""From the length of a message to its size with the separator. It runs without Python bytecode."""


class Rows:
    """Messages in committed order. Values that all messages of a record share are stored once, per record.

    The messages of a record are one piece of bytes, each followed by one separator, as JSON streams store them. `sizes`
    holds their lengths with the separators. The properties at the end give the values of each row instead.

    The first record may be only the rest of one: `first_position` is the position of its first message.
    """

    def __init__(self, records: Sequence[Record], names: Names, first_position: int = 0) -> None:
        self.names = names
        self.first_position = first_position
        self.committed_id = [record.committed_id for record in records]
        self.committed_at_us = [record.committed_at_us for record in records]
        self.is_event = [record.kind is EVENT for record in records]
        self.topic = [record.topic for record in records]
        self.source = [record.source for record in records]
        self.starts = [record.start for record in records]
        """Where each record begins in its stream."""
        self.id: list[str | None] = [None] * len(records)
        self.partitions: list[tuple[str, ...] | None] = [None] * len(records)
        self.pieces: list[bytes] = []
        """The messages of each record, each followed by a separator."""
        self.counts: list[int] = []
        """How many rows each record has."""
        self.sizes = array("q")
        """The size of each row, with its separator."""
        in_json = {topic: is_json(about.content_type) for topic, about in names.items()}
        if any(record.messages != 1 for record in records) or not self._take_singles(records, in_json):
            self._take_apart(records, in_json)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def are_records(self) -> bool:
        """Whether each record is one row."""
        return len(self.sizes) == len(self.counts)

    def _take_singles(self, records: Sequence[Record], in_json: dict[TopicId, bool]) -> bool:
        """Take records of one message each, the common case, column by column. Returns False if one is corrupt."""
        if any(self.is_event):
            try:
                events = [decode_stored(record.data) if record.kind is EVENT else None for record in records]
            except DAMAGED:
                return False
            self.id = [None if event is None else event.id for event in events]
            self.partitions = [None if event is None else event.partitions for event in events]
            self.pieces = [
                b"%b," % event.event if event else _terminate(record, in_json)
                for record, event in zip(records, events, strict=True)
            ]
        else:
            self.pieces = [_terminate(record, in_json) for record in records]
        self.counts = [1] * len(records)
        self.sizes = array("q", map(len, self.pieces))
        return True

    def _take_apart(self, records: Sequence[Record], in_json: dict[TopicId, bool]) -> None:
        """Find the messages of records, and take events out of their envelopes."""
        for number, record in enumerate(records):
            try:
                sizes, piece = self._measure(number, record, in_json)
            except DAMAGED:
                # A corrupt record must not make all later ones unreadable. It is shown as it is, whole.
                logger.error("record %d is corrupt; examine the store with mainstem check", record.committed_id)
                piece = record.data + SEPARATOR
                sizes = array("q", [len(piece)])
            self.pieces.append(piece)
            self.counts.append(len(sizes))
            self.sizes.extend(sizes)

    def _measure(self, number: int, record: Record, in_json: dict[TopicId, bool]) -> tuple["array[int]", bytes]:
        """Return the sizes of a record's messages, and their bytes."""
        if record.kind is EVENT:
            stored = decode_stored(record.data)
            self.id[number], self.partitions[number] = stored.id, stored.partitions
            piece = b"%b," % stored.event
        elif record.messages == 1 or not in_json[record.topic]:
            piece = _terminate(record, in_json)
        else:
            parts = json_mode.messages(record.data)
            sizes = array("q", map(WITH_SEPARATOR, map(len, parts)))
            return sizes, record.data if sum(sizes) == len(record.data) else SEPARATOR.join([*parts, b""])
        return array("q", [len(piece)]), piece

    # Values per row, for formats that have an object per row anyway

    @cached_property
    def record(self) -> Sequence[int]:
        """The number of the record of each row."""
        if self.are_records:
            return range(len(self))
        return list(chain.from_iterable(map(repeat, range(len(self.counts)), self.counts)))

    @cached_property
    def position(self) -> list[int]:
        """The position of each row in its record."""
        return [
            position
            for first, count in zip(chain([self.first_position], repeat(0)), self.counts, strict=False)
            for position in range(first, first + count)
        ]

    @cached_property
    def start(self) -> list[int]:
        """Where each row begins in its stream."""
        ends = accumulate(self.counts)
        return [
            start
            for first, count, end in zip(self.starts, self.counts, ends, strict=True)
            for start in islice(accumulate(self.sizes[end - count : end], initial=first), count)
        ]

    @cached_property
    def data(self) -> list[bytes]:
        """The message of each row."""
        whole = b"".join(self.pieces)
        return [whole[begin : end - 1] for begin, end in pairwise(accumulate(self.sizes, initial=0))]


def _terminate(record: Record, in_json: dict[TopicId, bool]) -> bytes:
    """Return the only message of a stream's record with its separator. A JSON stream has stored one."""
    return record.data if in_json[record.topic] else record.data + SEPARATOR
