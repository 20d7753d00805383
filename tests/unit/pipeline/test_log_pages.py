"""NDJSON of the log as Arrow batches."""

import datetime

import pyarrow as pa
import pytest

from mainstem.pipeline.log_pages import FIELDS, decode_ndjson
from mainstem.server.log_api.arrow import arrow_schema

LINE = (
    b'{"committed_id":7,"position":1,"kind":"event","stream":null,"offset":null,"producer_id":null,"partitions":["a"],'
    b'"id":"i","client_id":"c","content_type":"application/json","committed_at":"2026-05-01T12:00:00.123456Z",%s}\n'
)


def test_the_columns_are_those_of_the_server():
    assert pa.schema(list(FIELDS.values())) == arrow_schema()


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b'"data":"gr\xc3\xbc\\u0000"', "grü\0".encode()), (b'"data_base64":"/wA="', b"\xff\x00"), (b'"data":""', b"")],
)
def test_bytes_and_times_are_exact(data, expected):
    batch = decode_ndjson(LINE % data, tuple(FIELDS))
    assert batch.schema == arrow_schema()
    (row,) = batch.to_pylist()
    assert row["data"] == expected
    assert row["committed_at"] == datetime.datetime(2026, 5, 1, 12, 0, 0, 123456, datetime.UTC)
    assert (row["committed_id"], row["position"], row["stream"], row["partitions"]) == (7, 1, None, ["a"])


def test_an_empty_page_and_some_columns():
    assert decode_ndjson(b"", ("committed_id",)).num_rows == 0
    assert decode_ndjson(b'{"committed_id":1,"data":"x"}\n', ("data", "committed_id")).schema.names == [
        "committed_id",
        "data",
    ]
