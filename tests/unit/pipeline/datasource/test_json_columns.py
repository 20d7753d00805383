"""Typed columns: values that do not fit are null, and no message crashes the worker."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.json_columns import JsonColumns

WIDE = t.StructType(
    [
        t.StructField("i", t.IntegerType()),
        t.StructField("s", t.StringType()),
        t.StructField("f", t.DoubleType()),
        t.StructField("t", t.TimestampType()),
        t.StructField("n", t.TimestampNTZType()),
        t.StructField("d", t.DateType()),
        t.StructField("m", t.DecimalType(6, 2)),
        t.StructField("a", t.ArrayType(t.StructType([t.StructField("x", t.DecimalType(4, 1))]))),
        t.StructField("a b", t.BooleanType()),
    ]
)


def parse(messages, schema=WIDE, flags=None):
    columns = JsonColumns(schema).parse(pa.array(messages, pa.binary()), flags).columns
    names = schema.fieldNames()
    return [dict(zip(names, row, strict=True)) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def present(row):
    return {name: value for name, value in row.items() if value is not None}


def test_every_type_is_read():
    message = json.dumps(
        {
            "i": -7,
            "s": "ä",
            "f": 1,
            "t": "2026-01-02T03:04:05.5+02:00",
            "n": "2026-01-02T03:04:05",
            "d": "2026-01-02",
            "m": 1.5,
            "a": [{"x": 2, "z": 1}, None],
            "a b": True,
            "more": {"deep": [1]},
        }
    )
    (row,) = parse([message.encode()])
    assert row == {
        "i": -7,
        "s": "ä",
        "f": 1.0,
        "t": datetime.datetime(2026, 1, 2, 1, 4, 5, 500_000, tzinfo=datetime.UTC),
        "n": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "d": datetime.date(2026, 1, 2),
        "m": Decimal("1.50"),
        "a": [{"x": Decimal("2.0")}, None],
        "a b": True,
    }


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"null", {}),
        (b"5", {}),
        (b"[1]", {}),
        (b"", {}),
        (b"\xff", {}),
        (b'{"i":1', {}),
        (b"[" * 100_000, {}),
        (b'{"i":1.0,"s":"x"}', {"s": "x"}),
        (b'{"i":"7","s":{"k": [1]}}', {"s": '{"k":[1]}'}),
        (b'{"i":3000000000,"s":5}', {"s": "5"}),
        (b'{"t":"soon","s":"x"}', {"s": "x"}),
        (b'{"m":123456.5,"s":"x"}', {"s": "x"}),
        (b'{"m":"1.005"}', {"m": Decimal("1.01")}),
        (b'{"s":null,"f":null}', {}),
        (b'{"i":1,"i":2}', {"i": 2}),
    ],
)
def test_values_that_do_not_fit_are_null_and_the_others_are_kept(message, found):
    rows = parse([b'{"i":1}', message, b'{"i":2}'])
    assert [present(row) for row in rows] == [{"i": 1}, found, {"i": 2}]


def test_messages_that_are_not_json_have_nulls():
    assert [present(row) for row in parse([b'{"i":1}', b'{"i":2}'], flags=[False, True])] == [{}, {"i": 2}]


def test_as_a_struct_a_message_that_is_not_an_object_is_null():
    schema = t.StructType([t.StructField("i", t.IntegerType())])
    messages = pa.array([b'{"i":1}', b"5", b"{}"], pa.binary())
    found, faults = JsonColumns(schema).parse_struct(messages, None)
    assert found.to_pylist() == [{"i": 1}, None, {"i": None}]
    assert faults == {1: "it is not a JSON object"}
    found, _ = JsonColumns(schema.add("bad", t.StringType()), "bad").parse_struct(messages, None)
    assert found.to_pylist() == [{"i": 1, "bad": None}, {"i": None, "bad": "5"}, {"i": None, "bad": None}]


def test_the_column_of_corrupt_records_has_the_text_and_the_faults_say_why():
    schema = t.StructType(
        [
            t.StructField("i", t.IntegerType()),
            t.StructField("bad", t.StringType()),
            t.StructField("m", t.DecimalType(4, 2)),
            t.StructField("o", t.StructType([t.StructField("x", t.ArrayType(t.IntegerType()))])),
        ]
    )
    messages = [b'{"i":1}', b'{"i":"7","m":1}', b"\xff", b'{"m":12345,"bad":"x"}', b'{"i":2,"o":{"x":[1,"y"]}}', b"{}"]
    found = JsonColumns(schema, "bad").parse(pa.array(messages, pa.binary()), [True] * 5 + [False])
    assert found.columns[1].to_pylist() == [
        None, '{"i":"7","m":1}', "\ufffd", '{"m":12345,"bad":"x"}', '{"i":2,"o":{"x":[1,"y"]}}', "{}",
    ]  # fmt: skip
    assert found.columns[0].to_pylist() == [1, None, None, None, 2, None]
    assert found.columns[3].to_pylist() == [None, None, None, None, {"x": None}, None]
    assert found.faults == {
        1: 'i: "7" does not fit int',
        2: "it is not valid JSON",
        3: "12345 does not fit decimal(4,2)",
        4: 'o: x: "y" does not fit int',
        5: "it is not JSON",
    }
    assert found.missing == [2, 5]


def test_maps_hold_any_type():
    inner = t.StructType([t.StructField("x", t.DecimalType(4, 1))])
    schema = t.StructType([t.StructField("p", t.MapType(t.StringType(), inner))])
    rows = parse(
        [b'{"p":{"k":{"x":1},"j":null}}', b'{"p":{"k":5}}', b'{"p":{}}', b'{"p":{"k":{"x":"q"},"l":{}}}'], schema
    )
    assert [row["p"] for row in rows] == [[("k", {"x": Decimal("1.0")}), ("j", None)], None, [], None]


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (t.BinaryType(), "binary"),
        (t.VariantType(), "variant"),
        (t.DayTimeIntervalType(), "interval"),
        (t.MapType(t.IntegerType(), t.StringType()), "map<int"),
        (t.ArrayType(t.VariantType()), "variant"),
    ],
)
def test_a_type_that_json_does_not_have_is_refused(type_, name):
    with pytest.raises(BadOption, match=f"b has the type .*{name}.* which cannot be read from JSON"):
        JsonColumns(t.StructType([t.StructField("b", type_)]))


def test_a_field_that_must_not_be_null_is_refused():
    with pytest.raises(BadOption, match="b is NOT NULL"):
        JsonColumns(t.StructType([t.StructField("b", t.StringType(), nullable=False)]))
    with pytest.raises(BadOption, match="must be a STRING"):
        JsonColumns(t.StructType([t.StructField("b", t.IntegerType())]), "b")


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(WIDE.fieldNames()), JSONS) | JSONS, max_size=5))
def test_any_json_gives_one_row(values):
    assert len(parse([json.dumps(value).encode() for value in values])) == len(values)


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_any_bytes_give_one_row(messages):
    assert len(parse(messages)) == len(messages)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_is_out_of_range_without_its_zone_is_a_fault_of_its_message(text):
    schema = t.StructType([t.StructField("n", t.TimestampNTZType()), t.StructField("s", t.StringType())])
    messages = [json.dumps({"n": text, "s": "kept"}).encode(), b'{"n": "2026-01-31T12:00:00+01:00"}']
    found = JsonColumns(schema).parse(pa.array(messages, pa.binary()), None)
    assert found.columns[0].to_pylist() == [None, datetime.datetime(2026, 1, 31, 11)]
    assert found.columns[1].to_pylist() == ["kept", None]
    assert found.faults == {0: f"{text} does not fit timestamp_ntz"}
