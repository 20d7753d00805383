"""Pages of the log as Arrow batches: from Arrow, or from NDJSON if the server was installed without Arrow."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from mainstem.errors import ArrowMissing
from mainstem.pipeline.http_client import HttpClient, Reply

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

FIELDS = {
    "committed_id": pa.field("committed_id", pa.int64(), nullable=False),
    "position": pa.field("position", pa.int32(), nullable=False),
    "kind": pa.field("kind", pa.string(), nullable=False),
    "stream": pa.field("stream", pa.string()),
    "offset": pa.field("offset", pa.string()),
    "producer_id": pa.field("producer_id", pa.string()),
    "partitions": pa.field("partitions", pa.list_(pa.field("item", pa.string()))),
    "id": pa.field("id", pa.string()),
    "client_id": pa.field("client_id", pa.string()),
    "content_type": pa.field("content_type", pa.string()),
    "data": pa.field("data", pa.binary(), nullable=False),
    "committed_at": pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
}
"""The columns of the log as the server sends them in Arrow."""


def log_arrow(names: tuple[str, ...]) -> pa.Schema:
    """Return these columns as an Arrow schema, with the names that Spark gives to the elements of lists."""
    spark = FIELDS | {"partitions": pa.field("partitions", pa.list_(pa.field("element", pa.string())))}
    return pa.schema([spark[name] for name in names])


class LogPages:
    """Requests pages over one connection. It asks for Arrow until the server refuses it, and then for NDJSON."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._format = ARROW

    def read(self, query: list[tuple[str, str]]) -> tuple[list[pa.RecordBatch], Mapping[str, str]]:
        """Return the rows of one page of `/v1/log`, and the headers of the reply."""
        reply = self._request("/v1/log", query)
        if self._format == ARROW:
            return read_batches(reply.body), reply.headers
        columns = dict(query).get("columns")
        return [decode_ndjson(reply.body, tuple(columns.split(",")) if columns else tuple(FIELDS))], reply.headers

    def read_index(
        self, query: list[tuple[str, str]], schema: pa.Schema
    ) -> tuple[list[pa.RecordBatch], Mapping[str, str]]:
        """Do the same for `/v1/log/index`, with the columns of a schema."""
        reply = self._request("/v1/log/index", query)
        if self._format == ARROW:
            batches = [batch.select(schema.names).cast(schema) for batch in read_batches(reply.body)]
            return batches, reply.headers
        rows = msgspec.json.Decoder().decode_lines(reply.body)
        return [pa.RecordBatch.from_pylist(rows, schema)], reply.headers

    def _request(self, path: str, query: list[tuple[str, str]]) -> Reply:
        if self._format == ARROW:
            reply = self._client.request(
                "GET", path, query=query, headers={"Accept": ARROW}, allowed=frozenset({ArrowMissing.status})
            )
            if reply.status != ArrowMissing.status:
                return reply
            if reply.problem.get("code") != ArrowMissing.code:
                self._client.refuse(reply, "GET", path)
            self._format = NDJSON
        return self._client.request("GET", path, query=query, headers={"Accept": NDJSON})


def read_batches(body: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(pa.py_buffer(body)) as batches:
        return [batch for batch in batches if batch.num_rows]


def decode_ndjson(body: bytes, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return the rows of a page as Arrow would hold them, byte for byte and microsecond for microsecond."""
    rows: list[dict[str, Any]] = msgspec.json.Decoder().decode_lines(body)
    names = [name for name in FIELDS if name in columns]
    arrays = [_make_column(name, rows) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([FIELDS[name] for name in names]))


def _make_column(name: str, rows: list[dict[str, Any]]) -> pa.Array:
    type_ = FIELDS[name].type
    if name == "data":
        return pa.array([_read_data(row) for row in rows], type_)
    if name == "committed_at":
        times = [(datetime.fromisoformat(row[name]) - EPOCH) // MICROSECOND for row in rows]
        return pa.array(times, pa.int64()).cast(type_)
    return pa.array([row[name] for row in rows], type_)


def _read_data(row: dict[str, Any]) -> bytes:
    text = row.get("data")
    return b64decode(row["data_base64"]) if text is None else text.encode()
