"""The columns of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOG_COLUMNS = {
    "committed_id": "BIGINT NOT NULL",
    "position": "INT NOT NULL",
    "kind": "STRING NOT NULL",
    "stream": "STRING",
    "offset": "STRING",
    "producer_id": "STRING",
    "partitions": "ARRAY<STRING>",
    "id": "STRING",
    "client_id": "STRING",
    "content_type": "STRING",
    "data": "BINARY NOT NULL",
    "committed_at": "TIMESTAMP NOT NULL",
}
"""Names and Spark types, in the order in which the server sends the columns."""


def log_struct(names: tuple[str, ...]) -> StructType:
    """Return these columns as a Spark type, without Spark's own parser, which needs Java."""
    from pyspark.sql import types as t

    types = {
        "BIGINT": t.LongType(),
        "INT": t.IntegerType(),
        "STRING": t.StringType(),
        "BINARY": t.BinaryType(),
        "TIMESTAMP": t.TimestampType(),
        "ARRAY<STRING>": t.ArrayType(t.StringType()),
    }
    fields = []
    for name in names:
        type_, not_null, _ = LOG_COLUMNS[name].partition(" NOT NULL")
        fields.append(t.StructField(name, types[type_], nullable=not not_null))
    return t.StructType(fields)
