"""Typed columns, modes and inference, beside Spark's own JSON source on the same messages."""

import pytest
from pyspark.errors import PySparkException

JSON_TYPE = {"Content-Type": "application/json"}
SCHEMA = (
    "i INT, s STRING, f DOUBLE, b BOOLEAN, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, m DECIMAL(6,2), a ARRAY<INT>, "
    "o STRUCT<x: INT, y: STRING>, p MAP<STRING, INT>, q ARRAY<STRUCT<x: INT>>, l BIGINT, _corrupt_record STRING"
)
CASES = [
    '{"i":1,"s":"x"}', '{"i":null,"s":null}', "{}", "null", "5", '"x"', "[1]", "true",
    '{"i":1.0,"s":"x"}', '{"i":1.5,"s":"x"}', '{"i":"7","s":"x"}', '{"i":3000000000,"s":"x"}', '{"i":true,"s":"x"}',
    '{"l":9223372036854775807}', '{"l":9223372036854775808,"s":"x"}', '{"l":1e3,"s":"x"}',
    '{"s":{"k": [1, 2.50]}}', '{"s":[1]}', '{"s":5}', '{"s":1.50}', '{"s":true}',
    '{"f":1}', '{"f":1.5}', '{"f":"1.5","s":"x"}', '{"f":"Infinity"}', '{"f":"-INF"}', '{"f":true,"s":"x"}',
    '{"b":1,"s":"x"}', '{"b":"true","s":"x"}', '{"b":false}',
    '{"t":"2026-01-02T03:04:05.5+02:00"}', '{"t":"2026-01-02T03:04:05Z"}', '{"t":"2026-01-02T03:04:05"}',
    '{"t":"2026-01-02 03:04:05"}', '{"t":"2026-01-02"}', '{"t":1700000000}', '{"t":"soon","s":"x"}', '{"t":true}',
    '{"n":"2026-01-02T03:04:05"}', '{"n":"later","s":"x"}',
    '{"d":"2026-01-02"}', '{"d":"2026-01-02T03:04:05Z"}', '{"d":5,"s":"x"}', '{"d":"x","s":"x"}',
    '{"m":1.005}', '{"m":"1.5"}', '{"m":7}', '{"m":123456.5,"s":"x"}', '{"m":"x","s":"x"}', '{"m":true,"s":"x"}',
    '{"a":[1,null,2]}', '{"a":[]}', '{"a":[1,"x"],"s":"x"}', '{"a":5,"s":"x"}', '{"a":{"x":1},"s":"x"}',
    '{"o":{"x":1,"z":2}}', '{"o":{}}', '{"o":{"x":"q","y":"kept"},"s":"x"}', '{"o":5,"s":"x"}',
    '{"p":{"k":1,"j":null}}', '{"p":{}}', '{"p":{"k":"q"},"s":"x"}', '{"p":5,"s":"x"}', '{"p":[],"s":"x"}',
    '{"q":[{"x":1},null]}', '{"I":1}', '{"i":1,"i":2}', '{"other":[1,{"x":2}],"i":3}', '{"_corrupt_record":"q","i":1}',
]  # fmt: skip

pytestmark = pytest.mark.slow


def read(spark, log, name, **options):
    reader = spark.read.format("mainstem").option("url", log.url).option("columns", "committed_id,position")
    return reader.options(**options).load(name).orderBy("committed_id", "position").drop("committed_id", "position")


def write(log, name, messages):
    log.http.put(f"/v1/stream/{name}", headers=JSON_TYPE)
    body = f"[{','.join(messages)}]".encode()
    log.http.post(f"/v1/stream/{name}", headers=JSON_TYPE, content=body).raise_for_status()


def test_messages_fit_a_schema_as_in_sparks_json_source(spark, shared, name):
    write(shared, name, CASES)
    lines = spark.sparkContext.parallelize(CASES, 1)
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        theirs = spark.read.schema(SCHEMA).option("mode", mode).json(lines).collect()
        ours = read(spark, shared, name, schema=SCHEMA, mode=mode).collect()
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert one == other, f"{mode}, row {number}: {CASES[number] if mode == 'PERMISSIVE' else ''}"
    with pytest.raises(PySparkException, match=r"MalformedMessage: message 3 of committed id \d+ .* not a JSON object"):
        read(spark, shared, name, schema=SCHEMA, mode="FAILFAST").collect()
    fitting = read(spark, shared, name, schema="s STRING", mode="failfast", endingId=0)
    assert fitting.collect() == []


def test_the_column_of_corrupt_records_has_any_name_and_may_be_in_a_struct(spark, shared, name):
    write(shared, name, ['{"i":1}', '{"i":"x"}', "7"])
    shared.append_bytes(f"{name}-text", b"plain", "text/plain")
    both = {"streams": f"{name},{name}-text", "schema": "i INT, bad STRING", "columnNameOfCorruptRecord": "bad"}
    rows = read(spark, shared, None, **both).collect()
    assert [tuple(row) for row in rows] == [(1, None), (None, '{"i":"x"}'), (None, "7"), (None, "plain")]
    structs = read(spark, shared, None, **both, schemaColumn="value").select("value.*").collect()
    assert structs == rows
    assert read(spark, shared, None, **both, mode="DROPMALFORMED").count() == 1
    with pytest.raises(PySparkException, match="n is NOT NULL"):
        read(spark, shared, name, schema="n INT NOT NULL").collect()
    with pytest.raises(PySparkException, match="v has the type variant, which cannot be read from JSON"):
        read(spark, shared, name, schema="v VARIANT").collect()


INFERRED = [
    '{"a":1,"b":"x","c":null,"d":[1,2.5],"e":{"x":1,"y":[{"z":true}]}}',
    '{"a":2.5,"b":7,"d":[],"e":{"x":"text","w":null},"f":18446744073709551615,"g":{}}',
    '{"b":{"k":1},"f":5,"h":[[1],["x"]],"i":[null],"J":false,"größe":1}',
]


def test_an_inferred_schema_is_that_of_sparks_json_source(spark, shared, name):
    write(shared, name, INFERRED)
    theirs = spark.read.json(spark.sparkContext.parallelize(INFERRED, 1))
    ours = read(spark, shared, name, schema="infer")
    assert ours.schema == theirs.schema
    assert ours.collect() == theirs.collect()
    first = read(spark, shared, name, schema="infer", inferRows=1)
    assert first.columns == ["a", "b", "c", "d", "e"]
    in_struct = read(spark, shared, name, schema="infer", schemaColumn="value")
    assert in_struct.select("value.*").schema == theirs.schema
    latest = spark.readStream.format("mainstem").option("url", shared.url).option("startingId", "latest")
    assert latest.option("schema", "infer").load(name).schema[-len(theirs.columns) :] == theirs.schema
    with pytest.raises(PySparkException, match="schema=infer found no JSON object"):
        read(spark, shared, f"{name}-nothing", schema="infer")
