"""Which records form a page of the log.

A page ends before a record that would make it too long, or within a record that is too long itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import RecordTooLarge
from mainstem.log.records import CommittedId, Kind, Record
from mainstem.server.log_api.rows import DAMAGED, Names
from mainstem.server.log_api.selection import Selection
from mainstem.streams.rules import json_mode
from mainstem.streams.rules.content_types import is_json

ResumePoints = dict[CommittedId, tuple[int, int]]
"""Where pages ended within records that were split: the number of the next message, and the byte where it begins.
With an entry, the next page need not count all messages before it."""


class PageRecords(NamedTuple):
    records: list[Record]
    """The last one may be only the beginning of a record, and the first one only the rest."""
    first_position: int
    """The position of the first message of the first record."""
    next: int | None
    """The id up to which the page is complete; None if it holds all the records that were given."""
    position: int
    """How many messages of the record after `next` the page holds, too."""


def take_page(
    records: Sequence[Record],
    names: Names,
    selection: Selection,
    resume_points: ResumePoints,
    rows_max: int = limits.LOG_PAGE_ROWS,
    bytes_min: int = limits.LOG_PAGE_BYTES,
) -> PageRecords:
    """Return as many of these records as form a page.

    A record is split only if it is the first one, and only for a reader that sends a position: any other reader would
    read its rows again and again.
    """
    taken = list(records)
    first_position = 0
    if taken and selection.position is not None:
        bytes_max = max(selection.bytes_max, bytes_min)
        first = taken[0]
        skipped = selection.position if first.committed_id == selection.after + 1 else 0
        if skipped or ((first.messages > rows_max or len(first.data) > bytes_max) and _is_divisible(first, names)):
            part, position = split_record(first, skipped, resume_points, rows_max, bytes_max)
            if part is not None and position is not None:
                return PageRecords([part], skipped, first.committed_id - 1, position)
            taken[:1] = [] if part is None else [part]
            first_position = skipped if part is not None else 0
    elif taken and taken[0].messages > limits.LOG_RECORD_ROWS_MAX:
        raise RecordTooLarge(
            f"record {taken[0].committed_id} holds {taken[0].messages} messages, and is split only for requests with a "
            "position"
        )
    rows = 0
    if sum([record.messages for record in taken]) <= rows_max:
        return PageRecords(taken, first_position, None, 0)
    for number, record in enumerate(taken):
        rows += record.messages
        if number and rows > rows_max:
            return PageRecords(taken[:number], first_position, record.committed_id - 1, 0)
    return PageRecords(taken, first_position, None, 0)


def _is_divisible(record: Record, names: Names) -> bool:
    return record.kind is Kind.APPEND and record.messages > 1 and is_json(names[record.topic].content_type)


def split_record(
    record: Record, position: int, resume_points: ResumePoints, rows_max: int, bytes_max: int
) -> tuple[Record | None, int | None]:
    """Return the messages of a record from a position on, as many as fit but at least one, and the next position.

    The record is None if no messages are left, and the position is None if these are the last.
    """
    if record.messages <= 1:
        return (None if position else record), None
    number, begin = resume_points.get(record.committed_id, (0, 0))
    if number > position:
        number = begin = 0
    start, rows = -1, 0
    try:
        for group, parts in json_mode.message_groups(record.data, begin):
            if number + len(parts) <= position:
                number += len(parts)
                continue
            at: int = group.start
            for part in parts:
                if number >= position:
                    start = at if start < 0 else start
                    if rows and (rows == rows_max or at + len(part) + 1 - start > bytes_max):
                        _remember(resume_points, record, number, at)
                        return _slice(record, start, at, rows), number
                    rows += 1
                number += 1
                at += len(part) + 1
    except DAMAGED:
        return (None if position else record), None  # a corrupt record is shown whole, and once
    return (None if start < 0 else _slice(record, start, len(record.data), rows)), None


def _remember(resume_points: ResumePoints, record: Record, number: int, at: int) -> None:
    if len(resume_points) >= limits.LOG_RESUME_POINTS_MAX:
        resume_points.clear()
    resume_points[record.committed_id] = number, at


def _slice(record: Record, start: int, end: int, messages: int) -> Record:
    return msgspec.structs.replace(
        record, start=record.start + start, end=record.start + end, messages=messages, data=record.data[start:end]
    )
