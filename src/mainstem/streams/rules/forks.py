"""Forks: where they branch off, and which topic holds each part of their data (protocol section 4.2)."""

import re

from mainstem import limits
from mainstem.errors import BadHeader, BadOffset
from mainstem.log.records import TopicId
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.json_mode import count_messages, find_message
from mainstem.streams.states import Segment, StreamState

SUB_OFFSET_FORM = re.compile(r"0|[1-9][0-9]{0,15}")


def parse_sub_offset(text: str) -> int:
    if not SUB_OFFSET_FORM.fullmatch(text) or int(text) > limits.INTEGER_MAX:
        raise BadHeader(f"Stream-Fork-Sub-Offset {text[:32]!r} is not a whole number in plain decimal form")
    return int(text)


def count_sub_offset(content_type: str, record: bytes, sub_offset: int) -> int:
    """How many bytes of the record after the anchor a fork inherits: messages in JSON mode, else plain bytes."""
    if not is_json(content_type):
        if sub_offset > len(record):
            raise BadOffset(f"sub-offset {sub_offset} lies beyond the {len(record)} bytes of the next append")
        return sub_offset
    inherited = find_message(record, sub_offset)
    if inherited is None:
        number = count_messages(record)
        raise BadOffset(f"sub-offset {sub_offset} lies beyond the {number} messages of the next append")
    return inherited


def segment_at(state: StreamState, position: int) -> tuple[TopicId, int]:
    """Which topic holds the byte at a position, and up to where."""
    for segment in state.lineage:
        if position < segment.end:
            return segment.topic, segment.end
    return state.topic, state.tail


def inherit(source: StreamState, position: int) -> tuple[Segment, ...]:
    """The segments of a fork at a position: the source's own, cut off there, and the source itself."""
    lineage: list[Segment] = []
    for segment in (*source.lineage, Segment(source.topic, source.tail)):
        reached = lineage[-1].end if lineage else 0
        until = min(segment.end, position)
        if until > reached:
            lineage.append(Segment(segment.topic, until))
    return tuple(lineage)
