"""From records to rows: one row a message, column by column, since that is how Arrow wants them."""

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
"""What each topic is called: what its CREATE record says."""

DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

WITH_COMMA = (1).__add__
"""How far the next message begins behind one of this length: a comma follows each. No Python runs for it."""


class Rows:
    """Messages in committed order. What the messages of one record share stands once, at `record[i]` for row i.

    The first record may be the rest of one: `first_position` is that of its first message.
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
        """`record` for Arrow, which most columns need."""
        import pyarrow as pa

        return pa.array(self.record, pa.int32())

    def _take_singles(self, records: Sequence[Record], in_json: dict[TopicId, bool]) -> bool:
        """Records of one message each, the usual case: column by column. False if one of them is damaged."""
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
        """Records of several messages into their messages, and events out of their envelopes."""
        numbers: list[int] = []
        for number, record in enumerate(records):
            try:
                parts = self._parts(number, record, in_json)
            except DAMAGED as error:
                # A damaged record must not keep everybody from all that come after it. It is shown as it is, whole.
                logger.error("record %d cannot be taken apart (%s): audit this log", record.committed_id, error)
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
