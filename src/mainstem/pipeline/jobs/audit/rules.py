"""Rules that need more than one range, or the server's indexes. Each returns a table of violations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mainstem.pipeline.jobs.audit.findings import SCHEMAS
from mainstem.pipeline.jobs.audit.scan import SAMPLE_OF, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 4096
"""Event ids are compared by one fingerprint per bucket first, then one by one in the buckets that differ."""


class Bounds(NamedTuple):
    """The scope of the comparison: the log up to `until`, in which retention may have erased ids up to `pruned`."""

    until: int
    pruned: int
    sample: int


class Tables:
    """The findings of the tasks, as DataFrames."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def __getitem__(self, kind: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(SCHEMAS[kind])
        if kind not in self:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet((self.folder / kind).resolve().as_uri())

    def __contains__(self, kind: str) -> bool:
        """Whether the table has rows. Rules about empty tables are skipped."""
        return any((self.folder / kind).glob("[!.]*.parquet"))


def check_tables(tables: Tables, bounds: Bounds) -> Iterator[DataFrame]:
    """Yield the violations of every rule: rule, committed_id, name, detail."""
    if "faults" in tables:
        yield tables["faults"]
    if "runs" in tables:
        yield check_runs(tables)
    if "runs" in tables or "index_streams" in tables:
        yield check_streams(tables, bounds)
    if "appends" in tables or "index_producers" in tables:
        yield check_producers(tables, bounds)
    if "events" in tables or "index_events" in tables:
        events = check_events(tables, bounds)
        if events is not None:
            yield events


def check_spans(spans: list[Span], skew_us: int) -> list[tuple[str, int, str | None, str]]:
    """Compare the times of adjacent ranges."""
    violations: list[tuple[str, int, str | None, str]] = []
    filled = [span for span in sorted(spans, key=lambda span: span.after) if span.rows]
    for before, span in itertools.pairwise(filled):
        back_us = before.last_at_us - span.first_at_us
        if back_us > skew_us:
            detail = f"{span.first_id} was committed {back_us / 1e6:.6f} s before {before.last_id}"
            violations.append(("time", span.first_id, None, detail))
    return violations


def check_runs(tables: Tables) -> DataFrame:
    """Check that a stream's data has no gaps or overlaps. Data that was trimmed or deleted since is not a gap."""
    return tables.spark.sql(
        """
        WITH neighbours AS (
            SELECT *, lag(last_end) OVER (PARTITION BY stream, read_seq ORDER BY first_id, first_start) AS end_before
            FROM {runs}
        )
        SELECT 'offset' AS rule, first_id AS committed_id, stream AS name,
            format_string('stream %s: a message of %d begins at position %d, but the data before it ends at %d',
                stream, first_id, first_start, end_before) AS detail
        FROM neighbours JOIN {streams} AS state
            ON state.path = neighbours.stream AND state.read_seq = neighbours.read_seq AND NOT state.deleted
        WHERE first_start < end_before OR (first_start > end_before AND first_start > begins)
        """,
        runs=tables["runs"],
        streams=tables["index_streams"],
    )


def check_streams(tables: Tables, bounds: Bounds) -> DataFrame:
    """Check that each stream begins, ends and counts its messages as its state says.

    A state that is newer than the audit (`last_id` beyond `until`) may be ahead of the audited rows.
    """
    return tables.spark.sql(
        """
        WITH data AS (
            SELECT stream, read_seq, min(first_start) AS first_start, max(last_end) AS last_end,
                sum(messages) AS counted, max(last_id) AS newest
            FROM {runs} GROUP BY stream, read_seq
        ), checked AS (
            SELECT path AS name, coalesce(newest, last_id) AS committed_id, CASE
                WHEN last_end > tail OR (last_id <= {until} AND tail > begins AND coalesce(last_end, begins) < tail)
                    THEN format_string('should end at %d, but its data ends at %d', tail, coalesce(last_end, begins))
                WHEN first_start > begins AND tail > begins
                    THEN format_string('should begin at %d, but its data begins at %d', begins, first_start)
                WHEN last_id BETWEEN 1 AND {until} AND NOT trimmed AND counted <> state.messages
                    THEN format_string('should have %d messages, but has %d', state.messages, counted)
                END AS detail
            FROM {streams} AS state LEFT JOIN data ON data.stream = path AND data.read_seq = state.read_seq
            WHERE NOT deleted
            UNION ALL
            SELECT stream, newest, format_string('has data of read_seq %d, which the server does not know',
                data.read_seq)
            FROM data LEFT JOIN {streams} AS state ON path = stream
            WHERE path IS NULL OR data.read_seq > state.read_seq
        )
        SELECT 'stream' AS rule, committed_id, name, concat('stream ', name, ' ', detail) AS detail
        FROM checked WHERE detail IS NOT NULL
        """,
        runs=tables["runs"],
        streams=tables["index_streams"],
        until=bounds.until,
    )


def check_producers(tables: Tables, bounds: Bounds) -> DataFrame:
    """Check that a producer's last sequence number matches its appends.

    Records do not carry sequence numbers. In epoch 0 a producer has made exactly `last_seq + 1` requests, and in
    later epochs at least as many. The request that closed the stream may have held no data.
    """
    return tables.spark.sql(
        """
        WITH written AS (
            SELECT stream, read_seq, producer_id, sum(appends) AS appends FROM {appends}
            GROUP BY stream, read_seq, producer_id
        ), present AS (
            SELECT written.*, state.topic, last_id, trimmed, closed FROM written JOIN {streams} AS state
                ON state.path = written.stream AND state.read_seq = written.read_seq AND NOT deleted
            UNION ALL
            SELECT path, read_seq, id, 0, state.topic, last_id, trimmed, closed FROM {producers} AS producer
            JOIN {streams} AS state USING (path)
            WHERE producer.topic = state.topic AND NOT deleted AND NOT EXISTS (
                SELECT 1 FROM written
                WHERE stream = path AND producer_id = producer.id AND written.read_seq = state.read_seq)
        ), checked AS (
            SELECT stream, present.producer_id, last_id, CASE
                WHEN producer.id IS NULL OR producer.topic <> present.topic
                    THEN format_string('has made %d appends, but the server does not know it', appends)
                WHEN epoch = 0 AND appends > last_seq + 1
                    THEN format_string('has made %d appends, but its last sequence number is %d', appends, last_seq)
                WHEN last_id <= {until} AND NOT trimmed AND appends < last_seq + 1 - CAST(closed AS INT)
                    THEN format_string('has the last sequence number %d in epoch %d, but only %d appends',
                        last_seq, epoch, appends)
                END AS detail
            FROM present LEFT JOIN {producers} AS producer
                ON producer.path = present.stream AND producer.id = present.producer_id
        )
        SELECT 'producer' AS rule, last_id AS committed_id, stream AS name,
            concat('producer ', producer_id, ' of stream ', stream, ' ', detail) AS detail
        FROM checked WHERE detail IS NOT NULL
        """,
        appends=tables["appends"],
        streams=tables["index_streams"],
        producers=tables["index_producers"],
        until=bounds.until,
    )


def check_events(tables: Tables, bounds: Bounds) -> DataFrame | None:
    """Check that each event is in the index once, with its committed id and hash, and that no indexed event is lost."""
    log, index = tables["events"], tables["index_events"].where(f"committed_id <= {bounds.until}")
    buckets = _differing_buckets(log, index, bounds)
    if not buckets and not bounds.pruned:
        return None
    wanted = ",".join(map(str, buckets)) or "-1"
    suspect = f"committed_id <= {bounds.pruned} OR pmod(xxhash64(id), {BUCKETS}) IN ({wanted})"
    return tables.spark.sql(
        """
        WITH counted AS (
            SELECT *, count(*) OVER (PARTITION BY id) AS times, min(committed_id) OVER (PARTITION BY id) AS first_id
            FROM {log}
        ), checked AS (
            SELECT coalesce(counted.committed_id, known.committed_id) AS committed_id,
                coalesce(counted.id, known.id) AS name, CASE
                WHEN counted.id IS NULL THEN IF(known.committed_id <= {pruned}, NULL, 'lost_event')
                WHEN times > 1 THEN IF(counted.committed_id = first_id, NULL, 'duplicate_id')
                WHEN known.id IS NULL OR known.committed_id <> counted.committed_id THEN 'unknown_id'
                WHEN known.digest <> counted.digest THEN 'hash'
                END AS rule, first_id, times, known.committed_id AS known_id
            FROM counted FULL OUTER JOIN {index} AS known ON counted.id = known.id
        )
        SELECT rule, committed_id, name, CASE rule
            WHEN 'lost_event' THEN format_string('event %s was committed as %d, but is missing', name, committed_id)
            WHEN 'duplicate_id' THEN
                format_string('event %s is in the log twice, as %d and as %d', name, first_id, committed_id)
            WHEN 'hash' THEN
                format_string('event %s (%d) has another hash than when it was committed', name, committed_id)
            ELSE IF(known_id IS NULL,
                format_string('event %s (%d) is not in the index of event ids', name, committed_id),
                format_string('event %s is in the log as %d, but was committed as %d', name, committed_id, known_id))
            END AS detail
        FROM checked WHERE rule IS NOT NULL
        """,
        log=log.where(suspect),
        index=index.where(suspect),
        pruned=bounds.pruned,
    )


def _differing_buckets(log: DataFrame, index: DataFrame, bounds: Bounds) -> list[int]:
    """Return the buckets of ids whose entries beyond `pruned` differ between the log and the index.

    An entry of the log and the same entry of the index cancel each other out, in the count and in the hash.
    """
    from pyspark.sql import functions as f

    both = log.withColumn("side", f.lit(1)).unionByName(index.withColumn("side", f.lit(-1)))
    sampled = f.col("committed_id") % SAMPLE_OF < bounds.sample
    hashed = f.xxhash64("id", "committed_id", f.when(sampled, f.col("digest")))
    differing = (
        both.where(f.col("committed_id") > bounds.pruned)
        .groupBy(f.pmod(f.xxhash64("id"), f.lit(BUCKETS)).alias("bucket"))
        .agg(f.sum("side").alias("more"), f.bit_xor(hashed).alias("hash"))
        .where("more <> 0 OR hash <> 0")
    )
    return [int(row["bucket"]) for row in differing.select("bucket").collect()]
