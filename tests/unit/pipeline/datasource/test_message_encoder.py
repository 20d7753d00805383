"""Rows as messages: the JSON that they become, and the chunks that they are cut into."""

import datetime
import json
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadOption, BadRow
from mainstem.pipeline.datasource.message_encoder import MessageEncoder
from mainstem.pipeline.datasource.options import parse_write_options

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=datetime.UTC)


def options(**given):
    return parse_write_options({"url": "http://localhost", "stream": "s"} | given, streaming=False)


def encode(batch, **given):
    return MessageEncoder(batch.schema.names, batch.schema.types, options(**given)).encode(batch).to_pylist()


def test_a_row_is_a_json_object_of_its_columns_without_nulls():
    batch = pa.record_batch(
        {
            "n": pa.array([1, None]),
            "f": pa.array([0.5, float("nan")]),
            "s": pa.array(['a"\\\n', "ä😀"]),
            "b": pa.array([True, None]),
            "t": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "l": pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("us")),
            "d": pa.array([MOMENT.date(), None]),
            "m": pa.array([Decimal("1.50"), None]),
            "a": pa.array([[1, None], None]),
            "o": pa.array([{"x": 1, "y": None}, None]),
            "p": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    first, second = encode(batch)
    assert json.loads(first) == {
        "n": 1,
        "f": 0.5,
        "s": 'a"\\\n',
        "b": True,
        "t": "2026-01-02T03:04:05.600000Z",
        "l": "2026-01-02T03:04:05.600000",
        "d": "2026-01-02",
        "m": 1.5,
        "a": [1, None],
        "o": {"x": 1, "y": None},
        "p": {"k": 1},
    }
    assert second == '{"s":"ä😀"}'.encode()


@given(
    st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1), st.floats() | st.none()), max_size=20),
    st.text(min_size=1),
)
def test_any_text_and_number_is_written_as_equal_json(rows, name):
    batch = pa.record_batch(
        {
            name + "s": pa.array([row[0] for row in rows], pa.string()),
            name + "n": pa.array([row[1] for row in rows], pa.int64()),
            name + "f": pa.array([row[2] for row in rows], pa.float64()),
        }
    )
    for row, message in zip(rows, encode(batch), strict=True):
        found = msgspec.json.decode(message)
        assert (found[name + "s"], found[name + "n"]) == row[:2]
        finite = row[2] is not None and row[2] - row[2] == 0
        assert found.get(name + "f") == (row[2] if finite else None)


def test_a_lone_value_column_is_the_message_itself():
    batch = pa.record_batch({"value": pa.array(['{"b": 1.0}', "2"])})
    assert encode(batch) == [b'{"b": 1.0}', b"2"]
    batch = pa.record_batch({"value": pa.array([1, 2])})
    assert encode(batch) == [b'{"value":1}', b'{"value":2}']
    batch = pa.record_batch({"value": pa.array(["x"]), "k": pa.array([1])})
    assert encode(batch) == [b'{"value":"x","k":1}']
    assert encode(batch, valueColumn="value") == [b"x"]


def test_columns_that_name_the_target_are_not_in_the_message():
    batch = pa.record_batch({"room": pa.array(["a"]), "key": pa.array(["i"]), "n": pa.array([1])})
    given = {"stream": "", "partitionColumn": "room", "idColumn": "key"}
    assert encode(batch, **given) == [b'{"n":1}']


@pytest.mark.parametrize(
    ("batch", "given", "said"),
    [
        ({"n": [1]}, {"valueColumn": "v"}, "no column 'v'"),
        ({"n": [1]}, {"valueColumn": "n"}, "must be of the type string"),
        ({"n": [b"x"]}, {}, "is binary"),
        ({"n": [1]}, {"contentType": "text/plain"}, "set valueColumn"),
        ({"n": [1]}, {"stream": "", "streamColumn": "m"}, "no column 'm'"),
        ({"m": ["s"]}, {"stream": "", "streamColumn": "m"}, "no column is left"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(batch, given, said):
    with pytest.raises(BadOption, match=said):
        encode(pa.record_batch(batch), **given)


def test_a_null_message_is_refused():
    with pytest.raises(BadRow, match="nulls"):
        encode(pa.record_batch({"value": pa.array(["1", None])}))


def chunks(values, chunk_bytes, **given):
    batch = pa.record_batch({"value": pa.array(values)})
    messages = MessageEncoder(batch.schema.names, batch.schema.types, options(**given))
    return [(bytes(chunk.data), chunk.rows) for chunk in messages.chunk(messages.encode(batch), chunk_bytes)]


def test_chunks_are_split_between_messages_and_a_large_message_is_alone():
    assert chunks(["1", "22", "333", "4444444444", "5"], 8) == [
        (b"1,22,", 2),
        (b"333,", 1),
        (b"4444444444,", 1),
        (b"5,", 1),
    ]
    assert chunks([b"ab", b"cd"], 100, contentType="text/plain") == [(b"abcd", 2)]
    assert chunks([], 8) == []


def test_a_chunk_holds_no_more_messages_than_the_server_accepts_in_one_append():
    found = chunks(["1"] * (2 * limits.APPEND_MESSAGES_MAX + 5), limits.SINK_CHUNK_BYTES_MAX)
    assert [rows for _, rows in found] == [limits.APPEND_MESSAGES_MAX, limits.APPEND_MESSAGES_MAX, 5]


@pytest.mark.parametrize(
    "value", ["{", "1,2", "", "1] [2", "\ud800x".encode("utf-8", "surrogatepass"), "NaN", "[" * 600]
)
def test_what_the_server_would_refuse_is_never_staged(value):
    good = b"1" if isinstance(value, bytes) else "1"
    with pytest.raises(BadRow, match="a message is not JSON, it is "):
        chunks([good, value, good], 100)


def test_a_message_that_is_too_large_for_an_append_is_refused():
    with pytest.raises(BadRow, match="the limit is"):
        chunks(["x" * (limits.SINK_CHUNK_BYTES_MAX + 1)], 100, contentType="text/plain")
