"""From records to rows: one row per message, stored by column, as Arrow needs them."""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import msgspec

from mainstem.log.records import Kind, Record, TopicId
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.rules import json_mode
from mainstem.streams.rules.content_types import is_json
from mainstem.sync.protocol.messages import decode_stored

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

Names = Mapping[TopicId, CreateDescription]
"""The name and content type of each topic, from its CREATE record."""

DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

WITH_COMMA = (1).__add__
"""From the length of a message to the start of the next: a comma follows each. It runs without Python bytecode."""


class Rows:
    """Messages in committed order. Values that all messages of a record share are stored once: `record[i]` for row i.

    The first record may be only the rest of one: `first_position` is the position of its first message.
    """

    def __init__(self, records: Sequence[Record], names: Names, first_position: int = 0) -> None:
        self.names = names
        self.committed_id = [record.committed_id for record in records]
        self.committed_at_us = [record.committed_at_us for record in records]
        self.is_event = [record.kind is Kind.EVENT for record in records]
        self.topic = [record.topic for record in records]
        self.source = [record.source for record in records]
        self.id: list[str | None] = [None] * len(records)
        self.partitions: list[tuple[str, ...] | None] = [None] * len(records)

        self.record: Sequence[int] = range(len(records))
        self.position: list[int] = []
        self.start: list[int] = []
        self.data: list[bytes] = []
        in_json = {topic: is_json(about.content_type) for topic, about in names.items()}
        if any(record.messages != 1 for record in records) or not self._take_singles(records, in_json):
            self._take_apart(records, in_json)
        if first_position:
            rest = records[0].messages
            self.position[:rest] = range(first_position, first_position + rest)

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def record_array(self) -> "pa.Array":
        """`record` as an Arrow array, which most columns need."""
        import pyarrow as pa

        return pa.array(self.record, pa.int32())

    def _take_singles(self, records: Sequence[Record], in_json: dict[TopicId, bool]) -> bool:
        """Take records of one message each, the common case, column by column. Returns False if one is corrupt."""
        if any(self.is_event):
            try:
                events = [decode_stored(record.data) if record.kind is Kind.EVENT else None for record in records]
            except DAMAGED:
                return False
            self.id = [None if event is None else event.id for event in events]
            self.partitions = [None if event is None else event.partitions for event in events]
            self.data = [
                bytes(event.event) if event else record.data[:-1] if in_json[record.topic] else record.data
                for record, event in zip(records, events, strict=True)
            ]
        else:
            self.data = [record.data[:-1] if in_json[record.topic] else record.data for record in records]
        self.position = [0] * len(records)
        self.start = [record.start for record in records]
        return True

    def _take_apart(self, records: Sequence[Record], in_json: dict[TopicId, bool]) -> None:
        """Split records into their messages, and take events out of their envelopes."""
        numbers: list[int] = []
        for number, record in enumerate(records):
            try:
                parts = self._parts(number, record, in_json)
            except DAMAGED:
                # A corrupt record must not make all later ones unreadable. It is shown as it is, whole.
                logger.error("record %d is corrupt; examine the store with mainstem check", record.committed_id)
                parts = [record.data]
            numbers.extend(repeat(number, len(parts)))
            self.position.extend(range(len(parts)))
            self.start.extend(accumulate(map(WITH_COMMA, map(len, parts[:-1])), initial=record.start))
            self.data.extend(parts)
        self.record = numbers

    def _parts(self, number: int, record: Record, in_json: dict[TopicId, bool]) -> list[bytes]:
        if record.kind is Kind.EVENT:
            stored = decode_stored(record.data)
            self.id[number], self.partitions[number] = stored.id, stored.partitions
            return [bytes(stored.event)]
        if not in_json[record.topic]:
            return [record.data]
        if record.messages == 1:
            return [record.data[:-1]]
        return list(map(bytes, json_mode.messages(record.data)))
