"""Delta tables of the log, committed by delta-rs. See docs/adr/0012-lake-by-delta-rs.md.

A table's own transaction log keeps up to which committed id it holds the log, in the same commit that adds the files.
There is no second place that could say something else.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import BadOption, JobFailed, MissingSpark
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.lake.copies import WrittenFile
from mainstem.pipeline.log_reader import Selection, check_history, read_head, read_range
from mainstem.pipeline.log_schema import LOG_COLUMNS

if TYPE_CHECKING:
    from deltalake import DeltaTable
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
"""What is in a file: the rest is in its path."""


class Place(msgspec.Struct, frozen=True):
    """The end of what a table holds: the last id that has rows, and between which times they were committed."""

    committed_id: int
    since_us: int
    until_us: int


class Lake:
    """A Delta table that follows the log. `app` is who writes it: its transaction version is the id it has reached."""

    def __init__(
        self, location: str, app: str = ARCHIVE, schema: pa.Schema = ARCHIVE_SCHEMA, by: tuple[str, ...] = ()
    ) -> None:
        self.location = absolute(location)
        self.app = app
        self.schema = schema
        self.by = by

    def load(self, version: int | None = None) -> DeltaTable:
        """The table as it is now, or was. Raises `BadOption` if there is none."""
        return load_table(self.location, version)

    @property
    def exists(self) -> bool:
        deltalake = _import_deltalake()
        return bool(deltalake.DeltaTable.is_deltatable(self.location))

    def create(self) -> DeltaTable:
        """The table, made if there is none. Another one that is in this place is left alone."""
        deltalake = _import_deltalake()
        if not self.exists:
            deltalake.DeltaTable.create(self.location, self.schema, mode="ignore", partition_by=list(self.by) or None)
        table = self.load()
        found, wanted = [field.name for field in table.schema().fields], self.schema.names
        if found != wanted:
            raise BadOption(
                f"the Delta table at {self.location} has other columns ({', '.join(found)}): give a place of its own"
            )
        if table.transaction_version(self.app) is None and table.file_uris():
            raise BadOption(f"the Delta table at {self.location} was written by somebody else: give a place of its own")
        return table

    def reached(self, table: DeltaTable | None = None) -> int:
        """Up to and with which committed id the log is in the table."""
        if table is None and not self.exists:
            return 0
        return (table or self.load()).transaction_version(self.app) or 0

    def commit(self, files: list[WrittenFile], after: int, until: int) -> None:
        """Add the rows of `after` < committed_id <= `until`, all at once, if nobody else has done so meanwhile."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        table = self.load()
        found = self.reached(table)
        if found != after:
            raise JobFailed(
                f"another job has brought {self.location} to committed id {found} meanwhile: run one at a time"
            )
        properties = CommitProperties(
            app_transactions=[Transaction(self.app, until)],
            custom_metadata={"mainstem.after": after, "mainstem.until": until},
        )
        try:
            table.create_write_transaction(
                [_action(file, self.schema) for file in files],
                "append",
                table.schema(),
                partition_by=list(self.by) or None,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            # Of two jobs that began at the same place only one may add its files; those of the other are forgotten.
            raise JobFailed(f"another job writes into {self.location} ({error}): run one at a time") from None
        self._sync_log()

    def last_place(self) -> Place | None:
        """Where its rows end, from what the table says of its files."""
        known = pa.table(self.load().get_add_actions(flatten=True))
        if not known.num_rows or not {"max.committed_id", *TIMES} <= set(known.column_names):
            return None
        row = known.select(["max.committed_id", "min.committed_at", "max.committed_at"]).sort_by(
            [("max.committed_id", "descending")]
        )
        last = row.slice(0, 1)
        times = [last.column(name).cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py() for name in TIMES]
        return Place(last.column("max.committed_id")[0].as_py(), *times)

    def compact(self) -> int:
        """Make small files into larger ones where they pile up; how many went. Readers keep what they are reading."""
        gone = 0
        for target in (limits.COMPACT_LARGE_BYTES, limits.COMPACT_SMALL_BYTES):
            for partition in self._crowded(target):
                done = self.load().optimize.compact(
                    partition_filters=[(name, "=", value) for name, value in partition] or None,
                    target_size=target,
                    max_concurrent_tasks=limits.COMPACT_TASKS_MAX,
                )
                gone += int(done["numFilesRemoved"])
        if gone:
            self._sync_log()
        return gone

    def _crowded(self, target: int) -> list[tuple[tuple[str, str], ...]]:
        """Partitions with many files that are smaller than the target."""
        known = pa.table(self.load().get_add_actions(flatten=True)).to_pylist()
        small = Counter(
            tuple((name, str(file[f"partition.{name}"])) for name in self.by)
            for file in known
            if file["size_bytes"] < target
        )
        return [partition for partition, count in small.items() if count >= limits.COMPACT_FILES]

    def vacuum(self, hours: int) -> int:
        """Delete files that the table has not used for so many hours, also those that killed jobs have left."""
        gone = self.load().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return len(gone)

    def _sync_log(self) -> None:
        """delta-rs leaves a local commit to the page cache; whoever prunes the log then must be able to rely on it."""
        if "://" in self.location:
            return
        folder = os.path.join(self.location, "_delta_log")
        fsync(os.path.join(folder, f"{self.load().version():020d}.json"))
        fsync(folder)


TIMES = ("min.committed_at", "max.committed_at")
STATS_US = 1_000  # to which Delta rounds times down in what it says of a file


def load_table(location: str, version: int | None = None) -> DeltaTable:
    deltalake = _import_deltalake()
    try:
        table: DeltaTable = deltalake.DeltaTable(absolute(location), version=version)
    except deltalake.exceptions.TableNotFoundError:
        raise BadOption(f"there is no Delta table at {location}") from None
    except deltalake.exceptions.DeltaError as error:
        raise BadOption(f"the Delta table at {location} cannot be read: {first_line(error)}") from None
    return table


def absolute(location: str) -> str:
    return location if "://" in location else open_location(location)[1]


def archive_at(location: str) -> Lake:
    return Lake(location, by=PARTITIONED_BY)


def check_same_log(lake: Lake, server: ServerOptions, head: int) -> None:
    """A table goes on only with the log it was made of: ids of another one mean something else."""
    reached = lake.reached()
    if reached > head:
        raise BadOption(
            f"{lake.location} holds the log up to committed id {reached}, but that of {server.url} ends at {head}: "
            "it is another server's, or an older copy"
        )
    place = lake.last_place() if reached else None
    if place is not None:
        check_place(lake.location, place, server)


def check_place(location: str, place: Place, server: ServerOptions) -> None:
    """The log must have the last row that was taken from it; if that is gone, its neighbours must fit in time."""
    with HttpClient(server) as client:
        query = [("after", place.committed_id - 1), ("until", place.committed_id), ("max_bytes", 1)]
        query_text = [(name, str(value)) for name, value in query] + [("columns", "committed_id,committed_at")]
        reply = client.request("GET", "/v1/log", query=query_text, headers={"Accept": ARROW})
    found = pa.ipc.open_stream(pa.py_buffer(reply.body)).read_all().column("committed_at").cast(pa.int64())
    for time_us in found.to_pylist():  # none if it was pruned or deleted since
        if not place.since_us <= time_us < place.until_us + STATS_US:
            raise BadOption(
                f"{location} was made of another log: its last row has committed id {place.committed_id}, which "
                f"{server.url} committed at another time"
            )
    if not len(found):
        _check_neighbours(location, place, server)


def _check_neighbours(location: str, place: Place, server: ServerOptions) -> None:
    """Nothing below the place was committed later than it, and nothing above it earlier."""
    columns = ("committed_id", "committed_at")
    first, last = max(place.committed_id - limits.SAME_LOG_IDS, 0), place.committed_id + limits.SAME_LOG_IDS
    with HttpClient(server) as client:
        last = min(last, read_head(client).head)
    for batch in read_range(server, Selection(), columns, first, last, limits.LOG_READ_BYTES):
        times = batch.column("committed_at").cast(pa.int64()).to_pylist()
        for committed_id, time_us in zip(batch.column("committed_id").to_pylist(), times, strict=True):
            below = committed_id <= place.committed_id
            gap_us = time_us - place.until_us if below else place.since_us - time_us
            if gap_us > limits.SAME_LOG_SKEW_US:
                raise BadOption(
                    f"{location} was made of another log: it ends with committed id {place.committed_id}, but "
                    f"{server.url} committed {committed_id} {'later' if below else 'earlier'} than that"
                )


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
    """The archive, and behind it what is only in the log yet: every row once, up to one committed id.

    That id is the end of the log at the time of this call, however often the rows are read later. Without a `url`
    it is the end of the archive. `version` reads the archive as it was then. A log that was pruned beyond the archive
    is an error, unless `accept_loss` takes what is left.
    """
    lake = archive_at(table)
    found = lake.load(version)
    reached = lake.reached(found)
    rows = read_files(spark, lake.location, found.file_uris(), ARCHIVE_DDL).select(*ARCHIVE_SCHEMA.names)
    if url is None:
        return rows
    server = ServerOptions(url.rstrip("/"), None if token_file else token, token_file)
    with HttpClient(server) as client:
        head = read_head(client)
    check_same_log(lake, server, head.head)
    if not accept_loss:
        check_history(head, 0, reached)
    whole = "false" if accept_loss else "true"
    given = {"url": server.url, "token": server.token, "tokenFile": token_file, "failOnDataLoss": whole}
    options = {name: value for name, value in given.items() if value is not None}
    live = spark.read.format("mainstem").options(startingId=reached + 1, endingId=head.head, **options).load()
    return rows.unionByName(live.selectExpr("*", "CAST(committed_at AS DATE) AS date"))


def read_files(spark: SparkSession, root: str, files: list[str], ddl: str | None) -> DataFrame:
    """Parquet files of a table, the columns that are in their paths included."""
    if not files:
        return spark.createDataFrame([], ddl or "value STRING")
    reader = spark.read.option("basePath", root)
    return (reader.schema(ddl) if ddl else reader).parquet(*files)


ARROW = "application/vnd.apache.arrow.stream"


def _action(file: WrittenFile, schema: pa.Schema) -> Any:
    from deltalake.transaction import AddAction

    low = {"committed_id": file.first, "committed_at": _iso(file.since_us)}
    high = {"committed_id": file.last, "committed_at": _iso(file.until_us)}
    known = [name for name in low if name in schema.names]
    stats = {
        "numRecords": file.rows,
        "minValues": {name: low[name] for name in known},
        "maxValues": {name: high[name] for name in known},
        "nullCount": dict.fromkeys(known, 0),
    }
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.partition,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=msgspec.json.encode(stats).decode(),
    )


def _iso(time_us: int) -> str:
    seconds, rest = divmod(time_us, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:06d}Z"


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise MissingSpark("the package deltalake is not installed") from None
    return deltalake
