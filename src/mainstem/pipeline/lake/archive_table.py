"""The archive: a Delta table of the whole log, and how to read it together with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.lake.delta import LogTable, read_files
from mainstem.pipeline.lake.log_identity import check_same_log
from mainstem.pipeline.log_reader import check_history, read_head
from mainstem.pipeline.log_schema import LOG_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVE = "mainstem-archive"
PARTITIONED_BY = ("date", "kind")
ARCHIVE_DDL = ", ".join(f"`{name}` {type_.removesuffix(' NOT NULL')}" for name, type_ in LOG_COLUMNS.items())
ARCHIVE_DDL += ", `date` DATE"

ARCHIVE_SCHEMA = pa.schema(
    [
        ("committed_id", pa.int64()),
        ("position", pa.int32()),
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("offset", pa.string()),
        ("producer_id", pa.string()),
        ("partitions", pa.list_(pa.field("element", pa.string()))),
        ("id", pa.string()),
        ("client_id", pa.string()),
        ("content_type", pa.string()),
        ("data", pa.binary()),
        ("committed_at", pa.timestamp("us", "UTC")),
        ("date", pa.date32()),
    ]
)
FILE_SCHEMA = pa.schema([field for field in ARCHIVE_SCHEMA if field.name not in PARTITIONED_BY])
"""The columns in a file. The others are in its path."""


def open_archive(location: str) -> LogTable:
    return LogTable(location, ARCHIVE, ARCHIVE_SCHEMA, PARTITIONED_BY)


def read_archive(
    spark: SparkSession,
    table: str,
    *,
    url: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    version: int | None = None,
    accept_loss: bool = False,
) -> DataFrame:
    """Return the archive and the rows that are only in the log so far: every row once, up to one committed id.

    That id is the head of the log at the time of this call, however often the rows are read later. Without a `url`, the
    result ends with the archive. `version` reads an older version of the archive. If the log was pruned beyond the
    archive, this raises `HistoryLost`, unless `accept_loss` allows the gap.
    """
    archive = open_archive(table)
    found = archive.load(version)
    reached = archive.reached_id(found)
    rows = read_files(spark, archive.location, found.file_uris(), ARCHIVE_DDL).select(*ARCHIVE_SCHEMA.names)
    if url is None:
        return rows
    server = ServerOptions(url.rstrip("/"), None if token_file else token, token_file)
    with HttpClient(server) as client:
        head = read_head(client)
    check_same_log(archive, server, head.head)
    if not accept_loss:
        check_history(head, 0, reached)
    whole = "false" if accept_loss else "true"
    given = {"url": server.url, "token": server.token, "tokenFile": token_file, "failOnDataLoss": whole}
    options = {name: value for name, value in given.items() if value is not None}
    live = spark.read.format("mainstem").options(startingId=reached + 1, endingId=head.head, **options).load()
    return rows.unionByName(live.selectExpr("*", "CAST(committed_at AS DATE) AS date"))
