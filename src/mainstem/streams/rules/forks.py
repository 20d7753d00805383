"""Forks: the point where they branch off, and the topic that holds each part of their data (protocol section 4.2)."""

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
        raise BadHeader(f"Stream-Fork-Sub-Offset must be a whole number in decimal form, not {text[:32]!r}")
    return int(text)


def count_sub_offset(content_type: str, record: bytes, sub_offset: int) -> int:
    """Return how many bytes of the record after the anchor a fork inherits. `sub_offset` counts messages in JSON mode,
    and bytes otherwise."""
    if not is_json(content_type):
        if sub_offset > len(record):
            raise BadOffset(
                f"Stream-Fork-Sub-Offset {sub_offset} is beyond the next append, which has {len(record)} bytes"
            )
        return sub_offset
    inherited = find_message(record, sub_offset)
    if inherited is None:
        number = count_messages(record)
        raise BadOffset(f"Stream-Fork-Sub-Offset {sub_offset} is beyond the next append, which has {number} messages")
    return inherited


def segment_at(state: StreamState, position: int) -> tuple[TopicId, int]:
    """Return the topic that holds the byte at a position, and the end of its segment."""
    for segment in state.lineage:
        if position < segment.end:
            return segment.topic, segment.end
    return state.topic, state.tail


def inherit(source: StreamState, position: int) -> tuple[Segment, ...]:
    """Return the segments of a fork at a position: those of the source and the source itself, cut off there."""
    lineage: list[Segment] = []
    for segment in (*source.lineage, Segment(source.topic, source.tail)):
        reached = lineage[-1].end if lineage else 0
        until = min(segment.end, position)
        if until > reached:
            lineage.append(Segment(segment.topic, until))
    return tuple(lineage)
