"""Delta tables that hold the log, committed by delta-rs. See docs/adr/0012-archive-with-delta-rs.md.

The table's own transaction log records the committed id that the table has reached, in the same commit that adds the
files. Nothing else records it, so nothing can contradict it.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import BadOption, JobFailed, MissingSpark, StorageFailed
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import check_scheme, delta_options, needs_python_readers, open_location
from mainstem.pipeline.lake.files import WrittenFile
from mainstem.pipeline.log_reader import Position
from mainstem.pipeline.storage_errors import describe_storage_error, is_storage_error
from mainstem.timestamps import format_time_exactly

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


class LastCommit(msgspec.Struct, frozen=True):
    """The last committed id that has rows in a table or export, and the time range of the file that holds it."""

    committed_id: int
    since_us: int
    until_us: int


class LogTable:
    """A Delta table that follows the log.

    `app` identifies its writer in Delta's transactions. The version of the writer's last transaction is the committed
    id that the table has reached.
    """

    def __init__(self, location: str, app: str, schema: pa.Schema, partition_by: tuple[str, ...] = ()) -> None:
        self.location = absolute_location(location)
        self.app = app
        self.schema = schema
        self.partition_by = partition_by

    def load(self, version: int | None = None) -> DeltaTable:
        """Load the current or an older version of the table. Raise `BadOption` if there is no table."""
        return load_table(self.location, version)

    @property
    def exists(self) -> bool:
        deltalake = _import_deltalake()
        with _explained("read", self.location):
            return bool(deltalake.DeltaTable.is_deltatable(self.location, delta_options(self.location)))

    def create(self) -> DeltaTable:
        """Return the table, and create it first if there is none. Raise `BadOption` if it is another program's."""
        deltalake = _import_deltalake()
        if not self.exists:
            if "://" not in self.location:
                os.makedirs(self.location, exist_ok=True)  # its errors name the path; those of delta-rs may not
            with _explained("create", self.location):
                deltalake.DeltaTable.create(
                    self.location,
                    self.schema,
                    mode="ignore",
                    partition_by=list(self.partition_by) or None,
                    storage_options=delta_options(self.location),
                )
        table = self.load()
        found, wanted = [field.name for field in table.schema().fields], self.schema.names
        if found != wanted:
            raise BadOption(
                f"the Delta table at {self.location} has other columns ({', '.join(found)}): give another location"
            )
        if table.transaction_version(self.app) is None and table.file_uris():
            raise BadOption(f"another program has written the Delta table at {self.location}: give another location")
        return table

    def reached_id(self, table: DeltaTable | None = None) -> int:
        """Return the committed id up to which the table holds the log."""
        if table is None and not self.exists:
            return 0
        return (table or self.load()).transaction_version(self.app) or 0

    def commit(self, files: list[WrittenFile], after: int, end: Position) -> None:
        """Add the rows of `after` < committed_id <= `end` in one commit. Raise if another job has added them."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        table = self.load()
        found = self.reached_id(table)
        if found != after:
            raise JobFailed(
                f"another job has extended {self.location} to committed id {found} meanwhile: run one job at a time"
            )
        until = end.committed_id
        transactions = [Transaction(self.app, until)]
        metadata: dict[str, Any] = {"mainstem.after": after, "mainstem.until": until}
        if end.log is not None:
            transactions += [Transaction(self._app_of(end), until), Transaction(f"{self.app}-identified", until)]
            metadata |= {"mainstem.log": end.log, "mainstem.epoch": end.epoch}
        properties = CommitProperties(app_transactions=transactions, custom_metadata=metadata)
        try:
            with _explained("extend", self.location):
                table.create_write_transaction(
                    [_make_add_action(file, self.schema) for file in files],
                    "append",
                    table.schema(),
                    partition_by=list(self.partition_by) or None,
                    commit_properties=properties,
                )
        except CommitFailedError as error:
            if is_storage_error(error):
                raise _storage_failed("extend", self.location, error) from None
            # Of two jobs that began at the same id, only one may add its files.
            raise JobFailed(f"another job is writing into {self.location}: run one job at a time") from None
        self._sync_log()

    def _app_of(self, position: Position) -> str:
        """Return the name of the transactions that end in the epoch of a position."""
        return f"{self.app}/{position.log}/{position.epoch}"

    def holds_identity(self) -> bool:
        """Whether the table knows the log of its newest rows. An older version did not record it."""
        table = self.load()
        return bool(table.transaction_version(f"{self.app}-identified") == self.reached_id(table))

    def ends_at(self, position: Position) -> bool:
        """Whether the newest rows of the table were copied up to this position."""
        return bool(self.load().transaction_version(self._app_of(position)) == position.committed_id)

    def find_position(self) -> Position | None:
        """Return where the table ends, if that is in the recent part of its history."""
        table = self.load()
        reached = self.reached_id(table)
        for commit in table.history(limits.TABLE_HISTORY_MAX):
            if commit.get("mainstem.until") == reached and "mainstem.log" in commit:
                return Position(reached, commit["mainstem.log"], commit.get("mainstem.epoch"))
        return None

    def read_last_commit(self) -> LastCommit | None:
        """Return where the newest rows of the table are, from the statistics of its files."""
        known = pa.table(self.load().get_add_actions(flatten=True))
        if not known.num_rows or not {"max.committed_id", *TIME_STATS} <= set(known.column_names):
            return None
        row = known.select(["max.committed_id", "min.committed_at", "max.committed_at"]).sort_by(
            [("max.committed_id", "descending")]
        )
        last = row.slice(0, 1)
        times = [last.column(name).cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py() for name in TIME_STATS]
        return LastCommit(last.column("max.committed_id")[0].as_py(), *times)

    def measure(self) -> dict[str, int]:
        """Return the version of the table, and the number and the size of its files."""
        table = self.load()
        sizes = pa.table(table.get_add_actions(flatten=True)).column("size_bytes")
        return {"version": table.version(), "files": len(sizes), "bytes": sum(sizes.to_pylist())}

    def compact(self) -> int:
        """Merge small files where there are many, and return how many were replaced. Readers are not disturbed."""
        gone = 0
        for target in (limits.COMPACT_LARGE_BYTES, limits.COMPACT_SMALL_BYTES):
            for partition in self._find_crowded_partitions(target):
                with _explained("compact", self.location):
                    done = self.load().optimize.compact(
                        partition_filters=[(name, "=", value) for name, value in partition] or None,
                        target_size=target,
                        max_concurrent_tasks=limits.COMPACT_TASKS_MAX,
                    )
                gone += int(done["numFilesRemoved"])
        if gone:
            self._sync_log()
        return gone

    def _find_crowded_partitions(self, target: int) -> list[tuple[tuple[str, str], ...]]:
        """Return the partitions with many files that are smaller than the target."""
        known = pa.table(self.load().get_add_actions(flatten=True)).to_pylist()
        small = Counter(
            tuple((name, str(file[f"partition.{name}"])) for name in self.partition_by)
            for file in known
            if file["size_bytes"] < target
        )
        return [partition for partition, count in small.items() if count >= limits.COMPACT_FILES]

    def vacuum(self, hours: int) -> int:
        """Delete files that the table has not used for this many hours, including those that killed jobs left."""
        with _explained("vacuum", self.location):
            gone = self.load().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return len(gone)

    def _sync_log(self) -> None:
        """Make a local commit durable: delta-rs leaves it in the page cache, but retention relies on it."""
        if "://" in self.location:
            return
        folder = os.path.join(self.location, "_delta_log")
        fsync(os.path.join(folder, f"{self.load().version():020d}.json"))
        fsync(folder)


ANSI = re.compile(r"\x1b\[[0-9;]*m")
TIME_STATS = ("min.committed_at", "max.committed_at")


def load_table(location: str, version: int | None = None) -> DeltaTable:
    deltalake = _import_deltalake()
    where = absolute_location(location)
    try:
        with _explained("read", location):
            table: DeltaTable = deltalake.DeltaTable(where, version=version, storage_options=delta_options(where))
    except deltalake.exceptions.TableNotFoundError:
        raise BadOption(f"there is no Delta table at {location}") from None
    return table


@contextmanager
def _explained(verb: str, location: str) -> Iterator[None]:
    """Turn the errors of delta-rs into a `BadOption` or `StorageFailed` that names the table."""
    exceptions = _import_deltalake().exceptions
    try:
        yield
    except (exceptions.TableNotFoundError, exceptions.CommitFailedError):
        raise
    except exceptions.DeltaError as error:
        if is_storage_error(error):
            raise _storage_failed(verb, location, error) from None
        raise BadOption(f"cannot {verb} the Delta table at {location}: {last_cause(error)}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _storage_failed(verb, location, error) from None


def _storage_failed(verb: str, location: str, error: Exception) -> StorageFailed:
    return StorageFailed(f"cannot {verb} the Delta table at {location}: {describe_storage_error(error)}")


def absolute_location(location: str) -> str:
    """Return a URI as it is, and a path as an absolute path. Raise `BadOption` for a scheme that is unknown."""
    if "://" not in location:
        return open_location(location)[1]
    check_scheme(location)
    return location


def list_files(table: DeltaTable, until: int | None = None) -> list[str]:
    """Return the files of a table that may hold a committed id up to `until`, according to their statistics."""
    files = table.file_uris()
    if until is None or not files:
        return files
    known = pa.table(table.get_add_actions(flatten=True))
    if "min.committed_id" not in known.column_names:
        return files
    first = {os.path.basename(row["path"]): row["min.committed_id"] for row in known.to_pylist()}
    return [file for file in files if (first[os.path.basename(file)] or 0) <= until]


def read_files(spark: SparkSession, root: str, files: list[str], ddl: str | None) -> DataFrame:
    """Return the rows of a table's Parquet files, including the columns that are encoded in their paths."""
    if not files:
        return spark.createDataFrame([], ddl or "value STRING")
    if needs_python_readers(root):
        from mainstem.pipeline.lake.object_files import read_parquet_objects

        return read_parquet_objects(spark, root, files, ddl)
    reader = spark.read.option("basePath", root)
    return (reader.schema(ddl) if ddl else reader).parquet(*files)


def _make_add_action(file: WrittenFile, schema: pa.Schema) -> Any:
    from deltalake.transaction import AddAction

    low = {"committed_id": file.first, "committed_at": format_time_exactly(file.since_us)}
    high = {"committed_id": file.last, "committed_at": format_time_exactly(file.until_us)}
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


def last_cause(error: Exception) -> str:
    """Return the innermost cause, which delta-rs and Arrow print last, without the colours of a terminal."""
    lines = [line.strip() for line in ANSI.sub("", str(error)).replace("\u21b3", "\n").splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__


def _import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise MissingSpark("the package deltalake is not installed") from None
    return deltalake
