"""Compares the archive with the log: first a fingerprint per range of ids, then row by row where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.pipeline.jobs.audit.rules import Bounds, Tables
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.lake.archive_table import ARCHIVE_DDL, open_archive
from mainstem.pipeline.lake.delta import last_cause, read_files
from mainstem.pipeline.log_schema import LOG_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGE_IDS = 4096
ROW_KEY = ("committed_id", "position")


class ArchiveCheck:
    """Compares one archive with the log, up to the committed id that both the archive and the audit have reached."""

    def __init__(self, context: JobContext, location: str, audited: int) -> None:
        archive = open_archive(location)
        table = archive.load()
        self.until = min(archive.reached_id(table), audited)
        files = table.file_uris()
        self.unreadable = {} if "://" in archive.location else find_unreadable(files)
        readable = [file for file in files if file not in self.unreadable]
        self.rows = _hash_rows(read_files(context.spark, archive.location, readable, ARCHIVE_DDL), self.until)
        options = context.options | {"endingId": str(self.until), "failOnDataLoss": "false"}
        self.log = _hash_rows(context.spark.read.format("mainstem").options(**options).load(), self.until)

    def count(self) -> int:
        return self.rows.count()

    def check_files(self) -> list[tuple[str, int, str, str]]:
        """Return the violations of files that Spark could not read. Their rows are reported too, as missing."""
        return [("archive_file", 0, file, f"the file {file} {why}") for file, why in self.unreadable.items()]

    def check(self, tables: Tables, bounds: Bounds) -> DataFrame | None:
        """Return the violations, or None if both hold the same rows. Pruned rows may be in the archive only."""
        differing = self._differing_ranges()
        if differing is None:
            return None
        spark = tables.spark
        return spark.sql(
            """
            WITH archived AS (
                SELECT *, count(*) OVER (PARTITION BY committed_id, position) AS times,
                    row_number() OVER (PARTITION BY committed_id, position ORDER BY row_hash) AS nth
                FROM {archive} LEFT SEMI JOIN {differing} AS id_range USING (id_range)
            ), logged AS (
                SELECT * FROM {log} LEFT SEMI JOIN {differing} AS id_range USING (id_range)
            ), pairs AS (
                SELECT coalesce(logged.committed_id, archived.committed_id) AS committed_id,
                    coalesce(logged.position, archived.position) AS position,
                    coalesce(logged.stream, archived.stream) AS stream, coalesce(logged.id, archived.id) AS id,
                    archived.offset, nth, times, logged.row_hash AS ours, archived.row_hash AS theirs
                FROM logged FULL OUTER JOIN archived
                    ON logged.committed_id = archived.committed_id AND logged.position = archived.position
            ), checked AS (
                SELECT pairs.*, CASE
                    WHEN nth > 1 THEN 'archive_duplicate'
                    WHEN theirs IS NULL THEN 'archive_missing'
                    WHEN ours IS NOT NULL THEN IF(ours = theirs, NULL, 'archive_changed')
                    WHEN pairs.stream IS NOT NULL AND (state.path IS NULL
                        OR (NOT deleted AND CAST(left(offset, 16) AS BIGINT) = read_seq
                            AND CAST(right(offset, 16) AS BIGINT) >= begins)) THEN 'archive_extra'
                    WHEN pairs.stream IS NULL AND (known.id IS NULL OR known.committed_id <> pairs.committed_id
                        OR pairs.committed_id > {pruned}) THEN 'archive_extra'
                    END AS rule
                FROM pairs
                LEFT JOIN {streams} AS state ON state.path = pairs.stream
                LEFT JOIN {events} AS known ON known.id = pairs.id
            )
            SELECT rule, committed_id, coalesce(stream, id) AS name, concat(
                format_string('message %d of %d ', position, committed_id),
                coalesce(concat('in stream ', stream), concat('of event ', id)), CASE rule
                    WHEN 'archive_missing' THEN ' is in the log, but not in the archive'
                    WHEN 'archive_changed' THEN ' differs between the archive and the log'
                    WHEN 'archive_duplicate' THEN format_string(' is in the archive %d times', times)
                    ELSE ' is in the archive, but not in the log' END) AS detail
            FROM checked WHERE rule IS NOT NULL
            """,
            archive=self.rows,
            log=self.log,
            differing=differing,
            streams=tables["index_streams"],
            events=tables["index_events"],
            pruned=bounds.pruned,
        )

    def _differing_ranges(self) -> DataFrame | None:
        from pyspark.sql import functions as f

        def fingerprint(rows: DataFrame) -> DataFrame:
            return rows.groupBy("id_range").agg(f.count("*").alias("rows"), f.bit_xor("row_hash").alias("row_hash"))

        ours, theirs = fingerprint(self.log).alias("ours"), fingerprint(self.rows).alias("theirs")
        same = f.col("ours.rows").eqNullSafe(f.col("theirs.rows")) & f.col("ours.row_hash").eqNullSafe(
            f.col("theirs.row_hash")
        )
        differing = ours.join(theirs, "id_range", "full_outer").where(~same).select("id_range").localCheckpoint()
        return None if differing.isEmpty() else differing


def find_unreadable(files: list[str]) -> dict[str, str]:
    """Return the local files that are missing or not valid Parquet, with the reason."""
    found: dict[str, str] = {}
    for file in files:
        try:
            pq.read_metadata(file.removeprefix("file://"))
        except FileNotFoundError:
            found[file] = "is missing"
        except (pa.ArrowException, OSError) as error:
            found[file] = f"cannot be read: {last_cause(error)}"
    return found


def _hash_rows(rows: DataFrame, until: int) -> DataFrame:
    """Return the key of each row, its stream or event, and one hash of all its columns."""
    from pyspark.sql import functions as f

    row_hash = f.xxhash64(*LOG_COLUMNS)
    id_range = f.floor(f.col("committed_id") / RANGE_IDS).alias("id_range")
    return rows.where(f.col("committed_id") <= until).select(
        *ROW_KEY, "stream", "id", "offset", id_range, row_hash.alias("row_hash")
    )
