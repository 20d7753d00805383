"""Inferred types. tests/spark/test_schemas.py compares them with those of Spark's JSON source."""

import pytest
from pyspark.sql import types as t

from mainstem.pipeline.datasource.reading.schema_inference import infer_type, merge, merge_messages


@pytest.mark.parametrize(
    ("messages", "schema"),
    [
        ([b'{"b":1,"a":"x"}', b'{"a":null,"c":true}'], "struct<a:string,b:bigint,c:boolean>"),
        ([b'{"a":1}', b'{"a":1.5}'], "struct<a:double>"),
        ([b'{"a":1}', b'{"a":"x"}'], "struct<a:string>"),
        ([b'{"a":1}', b'{"a":[1]}'], "struct<a:string>"),
        ([b'{"a":[]}', b'{"a":[null,{"x":1}]}', b'{"a":[{"y":2}]}'], "struct<a:array<struct<x:bigint,y:bigint>>>"),
        ([b'{"a":18446744073709551615}', b'{"a":1}'], "struct<a:decimal(20,0)>"),
        ([b'{"a":%d}' % 10**40], "struct<a:double>"),
        ([b'{"a":{},"b":[{}],"c":1}'], "struct<c:bigint>"),
        ([b'{"a":null}'], "struct<a:string>"),
        ([b"5", b"[1]", b"x", b"[" * 100_000, b'{"a":1}'], "struct<a:bigint>"),
        ([], "struct<>"),
    ],
)
def test_messages_have_one_schema(messages, schema):
    assert merge_messages(messages).simpleString() == schema
    assert merge_messages(reversed(messages)).simpleString() == schema


def test_merging_keeps_a_type_that_both_have():
    for value in (1, 1.5, True, "x", [1], {"a": 1}, None):
        assert merge(infer_type(value), infer_type(value)) == infer_type(value)
        assert merge(t.NullType(), infer_type(value)) == infer_type(value)
