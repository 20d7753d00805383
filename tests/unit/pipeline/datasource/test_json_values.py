"""Values that are read one by one, as Spark's JSON source reads them. tests/spark/test_schemas.py compares the two."""

import datetime
import math
from decimal import Decimal

import pytest
from pyspark.sql import types as t

from mainstem.pipeline.datasource.json_values import make_reader

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("type_", "value", "found"),
    [
        (t.IntegerType(), 5, 5),
        (t.IntegerType(), 2**31, None),
        (t.ByteType(), -128, -128),
        (t.ByteType(), 128, None),
        (t.IntegerType(), True, None),
        (t.IntegerType(), 1.0, None),
        (t.IntegerType(), "1", None),
        (t.StringType(), {"a": [1]}, '{"a":[1]}'),
        (t.StringType(), False, "false"),
        (t.BooleanType(), 1, None),
        (t.DoubleType(), 1, 1.0),
        (t.DoubleType(), "-INF", -math.inf),
        (t.DoubleType(), "1.5", None),
        (t.FloatType(), True, None),
        (t.DecimalType(6, 2), "1.5", Decimal("1.5")),
        (t.DecimalType(6, 2), 1.5, Decimal("1.5")),
        (t.DecimalType(6, 2), "x", None),
        (t.TimestampType(), 0, datetime.datetime(1970, 1, 1, tzinfo=UTC)),
        (t.TimestampType(), "2026-01-02", datetime.datetime(2026, 1, 2)),
        (t.TimestampType(), "20260102T030405", None),
        (t.TimestampType(), 10**18, None),
        (t.DateType(), "2026-01-02T03:04:05Z", datetime.date(2026, 1, 2)),
        (t.DateType(), 5, None),
        (t.ArrayType(t.LongType()), [1, None], [1, None]),
        (t.ArrayType(t.LongType()), [1, "x"], None),
        (t.ArrayType(t.LongType()), {}, None),
        (t.MapType(t.StringType(), t.LongType()), {"a": 1, "b": None}, {"a": 1, "b": None}),
        (t.MapType(t.StringType(), t.LongType()), [], None),
    ],
)
def test_a_value_fits_or_is_a_fault(type_, value, found):
    faults: list[str] = []
    assert make_reader(type_)(value, faults) == found
    assert bool(faults) == (found is None)
    if faults:
        assert "does not fit" in faults[0]


def test_a_long_value_is_cut_in_the_fault():
    faults: list[str] = []
    make_reader(t.IntegerType())("x" * 1000, faults)
    assert len(faults[0]) < 80
