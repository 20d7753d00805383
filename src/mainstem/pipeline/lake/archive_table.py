"""The archive: a Delta table of the whole log, and how to read it together with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.errors import BadOption
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.lake.delta import LogTable, list_files, read_files
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
    as_of: int | None = None,
    accept_loss: bool = False,
) -> DataFrame:
    """Return the archive and the rows that are only in the log so far: every row once, up to one committed id.

    That id is the head of the log at the time of this call, however often the rows are read later. Without a `url`, the
    result ends with the archive. `as_of` ends it with a committed id instead, so that it is the same whenever it is
    read; the archive, or with a `url` the log, must have reached that id. `version` reads an older version of the
    archive. If the log was pruned beyond the archive, this raises `HistoryLost`, unless `accept_loss` allows the gap.
    """
    archive = open_archive(table)
    found = archive.load(version)
    reached = archive.reached_id(found)
    files = list_files(found, as_of)
    rows = read_files(spark, archive.location, files, ARCHIVE_DDL).select(*ARCHIVE_SCHEMA.names)
    if as_of is not None:
        rows = rows.where(rows.committed_id <= as_of)
    if as_of is not None and as_of <= reached:
        return rows
    if url is None:
        _check_reached(table, "the archive", reached, as_of)
        return rows
    server = ServerOptions(url.rstrip("/"), None if token_file else token, token_file)
    with HttpClient(server) as client:
        head = read_head(client)
    check_same_log(archive, server, head)
    _check_reached(table, f"the log of {url}", head.head, as_of)
    if not accept_loss:
        check_history(head, 0, reached)
    until = head.head if as_of is None else as_of
    whole = "false" if accept_loss else "true"
    given = {"url": server.url, "token": server.token, "tokenFile": token_file, "failOnDataLoss": whole}
    options = {name: value for name, value in given.items() if value is not None}
    live = spark.read.format("mainstem").options(startingId=reached + 1, endingId=until, **options).load()
    return rows.unionByName(live.selectExpr("*", "CAST(committed_at AS DATE) AS date"))


def _check_reached(table: str, source: str, reached: int, as_of: int | None) -> None:
    if as_of is not None and as_of > reached:
        raise BadOption(f"{source} only reaches committed id {reached}: {table} cannot be read as of {as_of}")
