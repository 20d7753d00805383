"""The columns in Arrow, which are built without an object per row, hold what NDJSON shows row by row."""

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.server.log_api.arrow import encode_arrow
from mainstem.server.log_api.formats import encode_ndjson
from mainstem.server.log_api.rows import Rows
from mainstem.server.log_api.selection import COLUMNS
from mainstem.streams.commands.create import CreateDescription
from mainstem.sync.protocol.messages import encode_stored

NAMES = {
    TopicId(1): CreateDescription("text", "text/plain", 0),
    TopicId(2): CreateDescription("json", "application/json", 3),
    TopicId(3): CreateDescription("again", "application/json", 4),
}
PIECES = {
    "text": (Kind.APPEND, 1, 1, b"plain, with a comma,"),
    "empty": (Kind.APPEND, 1, 1, b""),
    "single": (Kind.APPEND, 2, 1, b'{"n":1},'),
    "several": (Kind.APPEND, 2, 3, '1,"zwölf",[3],'.encode()),
    "other": (Kind.APPEND, 3, 2, b"{},[],"),
    "event": (Kind.EVENT, 0, 1, encode_stored("e", "c", ("a", "b"), b'{"x": 1}')),
    "damaged": (Kind.APPEND, 2, 2, b'{"id":"d",'),
}


def page(names: tuple[str, ...]) -> list[Record]:
    records = []
    for number, name in enumerate(names, start=1):
        kind, topic, messages, data = PIECES[name]
        start = 10**number
        source = None if number == 2 else "who"
        records.append(
            Record(CommittedId(number), number, kind, TopicId(topic), start, start + len(data), messages, data, source)
        )
    return records


def read_arrow(rows: Rows, columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    found = pa.ipc.open_stream(encode_arrow(rows, columns)).read_all().to_pylist()
    for row in found:
        if "committed_at" in row:
            row["committed_at"] = row["committed_at"].isoformat(timespec="microseconds").replace("+00:00", "Z")
        if "data" in row:
            row["data"] = row["data"].decode()
    return found


def read_ndjson(rows: Rows) -> list[dict[str, Any]]:
    return [json.loads(line) for line in encode_ndjson(rows).splitlines()]


@pytest.mark.parametrize("names", [(), *itertools.product(PIECES, repeat=1), *itertools.product(PIECES, repeat=3)])
def test_arrow_holds_the_same_values_as_ndjson(names: tuple[str, ...]) -> None:
    rows = Rows(page(names), NAMES)
    assert read_arrow(rows) == read_ndjson(rows)


@pytest.mark.parametrize(
    ("names", "positions"),
    [
        (("several",), [7, 8, 9]),
        (("several", "text", "other"), [7, 8, 9, 0, 0, 1]),
        (("single", "text"), [7, 0]),
        (("event", "several"), [7, 0, 1, 2]),
    ],
)
def test_the_rest_of_a_record_keeps_its_positions(names: tuple[str, ...], positions: list[int]) -> None:
    rows = Rows(page(names), NAMES, first_position=7)
    assert [row["position"] for row in read_arrow(rows)] == positions
    assert read_arrow(rows) == read_ndjson(rows)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_is_the_same_without_the_others(column: str) -> None:
    rows = Rows(page(("event", "several", "other", "text")), NAMES)
    assert read_arrow(rows, (column,)) == [{column: row[column]} for row in read_arrow(rows)]
