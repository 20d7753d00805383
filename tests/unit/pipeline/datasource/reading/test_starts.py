"""Starts: rows of a stream before its start are left out, and the result survives in a checkpoint."""

import json

import pyarrow as pa

from mainstem.pipeline.datasource.reading.starts import Start, Starts, read_start

ROWS = pa.RecordBatch.from_pylist(
    [
        {"committed_id": 1, "stream": "a", "offset": "0_0"},
        {"committed_id": 2, "stream": "b", "offset": "0_0"},
        {"committed_id": 3, "stream": "a", "offset": "0_5"},
        {"committed_id": 3, "stream": "a", "offset": "0_7"},
        {"committed_id": 4, "stream": None, "offset": None},
        {"committed_id": 5, "stream": "c", "offset": "0_0"},
        {"committed_id": 6, "stream": "b", "offset": "0_4"},
    ]
)


def select(starts: Starts) -> list[tuple[int, str]]:
    found = starts.select(ROWS).to_pylist()
    return [(row["committed_id"], row["offset"]) for row in found]


def test_a_stream_starts_at_its_offset_and_the_others_by_the_general_rule():
    assert select(Starts(0, {"a": "0_7"}, 3)) == [
        (1 + 1, "0_0"), (3, "0_7"), (4, None), (5, "0_0"), (6, "0_4"),
    ]  # fmt: skip
    assert select(Starts(4, {"a": "0_7"}, 4)) == [(3, "0_7"), (5, "0_0"), (6, "0_4")]
    assert select(Starts(6, {"b": 0, "a": 7}, 7)) == [(2, "0_0"), (6, "0_4")]


def test_rows_after_the_last_start_are_all_delivered():
    late = Starts(0, {"a": 1}, 0)
    assert late.select(ROWS) is ROWS


def test_a_start_survives_in_an_offset():
    for start in (Start(5), Start(0, Starts(4, {"a": "0_7", "b": 9}, 9))):
        assert read_start(json.loads(json.dumps(start.describe()))) == start
