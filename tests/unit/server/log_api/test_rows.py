"""Rows of the exported log: each record gives the same rows, whatever else is on its page."""

import itertools

import pytest

from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.server.log_api.rows import Rows
from mainstem.streams.commands.create import CreateDescription
from mainstem.sync.protocol.messages import encode_stored

NAMES = {
    TopicId(1): CreateDescription("text", "text/plain", 0),
    TopicId(2): CreateDescription("json", "application/json", 3),
}
PIECES = {
    "text": (Kind.APPEND, 1, 1, b"plain"),
    "single": (Kind.APPEND, 2, 1, b'{"n":1},'),
    "several": (Kind.APPEND, 2, 3, b'1,"two",[3],'),
    "event": (Kind.EVENT, 0, 1, encode_stored("e", "c", ("a", "b"), b'{"x": 1}')),
    "damaged": (Kind.EVENT, 0, 1, b'{"id":"d"'),
}


def page(*names: str) -> list[Record]:
    records = []
    for number, name in enumerate(names, start=1):
        kind, topic, messages, data = PIECES[name]
        start = 100 * number
        records.append(
            Record(CommittedId(number), number, kind, TopicId(topic), start, start + len(data), messages, data, "who")
        )
    return records


def rows(records: list[Record]) -> list[tuple[object, ...]]:
    made = Rows(records, NAMES)
    of_records = zip(made.committed_id, made.is_event, made.topic, made.source, made.id, made.partitions, strict=True)
    facts = list(of_records)
    return [
        (*facts[record], position, start, data)
        for record, position, start, data in zip(made.record, made.position, made.start, made.data, strict=True)
    ]


@pytest.mark.parametrize("names", list(itertools.product(PIECES, repeat=3)), ids="-".join)
def test_records_do_not_change_the_rows_of_others(names: tuple[str, ...]) -> None:
    records = page(*names)
    assert rows(records) == [row for record in records for row in rows([record])]


def test_messages_and_events_are_extracted_from_the_stored_records() -> None:
    assert [row[-1] for row in rows(page("text", "single", "several"))] == [
        b"plain",
        b'{"n":1}',
        b"1",
        b'"two"',
        b"[3]",
    ]
    assert [row[-2] for row in rows(page("several"))] == [100, 102, 108]
    assert rows(page("event")) == [(1, True, 0, "who", "e", ("a", "b"), 0, 100, b'{"x": 1}')]


def test_a_damaged_event_is_exported_whole_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    first, damaged, last = rows(page("event", "damaged", "event"))
    assert damaged == (2, True, 0, "who", None, None, 0, 200, b'{"id":"d"')
    assert (first[4], last[4]) == ("e", "e")
    assert "record 2 is corrupt" in caplog.text
