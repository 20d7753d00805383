"""Spark's types without Spark."""

import json

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from mainstem.pipeline.lake.spark_types import SparkNeeded, describe_schema, parse_ddl, parse_schema
from mainstem.pipeline.log_pages import log_arrow
from mainstem.pipeline.log_schema import LOG_COLUMNS, log_struct

COLUMNS = pa.schema(
    [
        ("flag", pa.bool_()),
        ("n", pa.int32()),
        pa.field("big", pa.int64(), nullable=False),
        ("ratio", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("plain", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.int16())])),
    ]
)


def test_schemas_are_those_of_spark():
    spark = from_arrow_schema(COLUMNS)
    assert t.StructType.fromJson(json.loads(describe_schema(COLUMNS))) == spark
    assert parse_schema(spark.json()) == to_arrow_schema(spark, timezone="UTC")


def test_the_columns_of_the_log_are_those_of_spark():
    assert log_arrow(tuple(LOG_COLUMNS)) == to_arrow_schema(log_struct(tuple(LOG_COLUMNS)), timezone="UTC")


def test_simple_schemas_of_people_need_no_spark():
    assert parse_schema(parse_ddl("n INT, `two words` string")) == pa.schema(
        [("n", pa.int32()), ("two words", pa.string())]
    )


@pytest.mark.parametrize("ddl", ["n", "n DECIMAL(3,1)", "n ARRAY<INT>", "n INT NOT NULL", ""])
def test_other_schemas_of_people_need_spark(ddl):
    with pytest.raises(SparkNeeded):
        parse_ddl(ddl)


@pytest.mark.parametrize("type_", [pa.duration("us"), pa.timestamp("ns"), pa.time64("us"), pa.null(), pa.uint64()])
def test_types_that_spark_reads_differently_need_spark(type_):
    with pytest.raises(SparkNeeded):
        describe_schema(pa.schema([("x", type_)]))
