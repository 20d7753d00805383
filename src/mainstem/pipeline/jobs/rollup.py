"""rollup: counts messages and bytes per time window and dimension, and writes each count once into a stream.

A window is written when the watermark passes its end. Rows move the watermark; in a quiet log, the clock of the server
does. See docs/adr/0028-retention-and-quiet-windows.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import BadOption, BadPath
from mainstem.pipeline.datasource.options import split_names
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.durations import measure_interval, parse_interval
from mainstem.pipeline.option_checks import check_globs, check_partitions
from mainstem.streams.rules.paths import JOBS_PATH, check_path
from mainstem.timestamps import parse_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

DIMENSIONS = ("stream", "partition", "client", "type")


class RollupSummary(Summary, kw_only=True):
    """What a round has counted."""

    into: str
    windows: int = 0
    """The number of counts that were written: one per window and combination of dimensions."""
    open: int = 0
    """The number of counts that wait until the log has passed the end of their window."""
    late: int = 0
    """The number of updates to windows that were already written, which are lost. One may combine several rows."""


class RollupOptions(msgspec.Struct, frozen=True):
    """What is counted. The checkpoint keeps these options: a rollup with others cannot continue its counts."""

    into: str
    window: str = "1m"
    late: str = "10s"
    by: tuple[str, ...] = ("stream",)
    time: str | None = None
    """The field of JSON messages that holds their time; None takes the time of the commit."""
    type: str = "type"
    """The field that holds a message's type."""
    streams: str | None = None
    partitions: str | None = None


class KeptOptions(RollupOptions, frozen=True):
    """The options as the checkpoint keeps them."""

    clock: bool = False
    """Whether the query reads the clock. One that was begun by an older version cannot add it."""


class Openness(msgspec.Struct, frozen=True):
    """What is known about the open windows after a round. If that round was killed, there may be more of them."""

    counted_us: int
    """The time of the server in the last round that has counted something."""
    counts: int = 1
    watermark_us: int = 0


@dataclass(frozen=True)
class Windows:
    length: str
    late: str

    def find_clock(self, now_us: int, openness: Openness, *, of_events: bool) -> int | None:
        """Return the time to which the clock moves the watermark, or None if that would not close a window.

        By commit time, everything that is yet to be counted is newer than the clock. By event time, the clock
        continues from the newest event at the pace of the server.
        """
        clock_us = now_us - int(limits.ROLLUP_IN_FLIGHT_S * 1_000_000)
        late_us, length_us = measure_interval(self.late), measure_interval(self.length)
        if of_events:
            clock_us += openness.watermark_us + late_us - openness.counted_us
        next_end_us = (openness.watermark_us // length_us + 1) * length_us
        return clock_us if openness.counts and next_end_us <= clock_us - late_us else None


def make_rollup(options: RollupOptions, *, accept_loss: bool = False) -> Job:
    """Return a job that counts. With `accept_loss` it continues even if the log was pruned before it was counted."""
    windows = check_options(options)

    def rollup(context: JobContext) -> RollupSummary:
        return _rollup(context, options, windows, accept_loss)

    return rollup


def check_options(options: RollupOptions) -> Windows:
    """Raise `BadOption` for an invalid option, before Spark starts."""
    try:
        check_path(options.into)
    except BadPath as error:
        raise BadOption(f"--into: {error.detail}") from None
    unknown = [name for name in options.by if name not in DIMENSIONS]
    if unknown or len(set(options.by)) != len(options.by):
        raise BadOption(
            f"--by must be a list of {', '.join(DIMENSIONS)}, each at most once, not {','.join(options.by)!r}"
        )
    if options.streams and options.partitions:
        raise BadOption("give --streams or --partitions, not both: no row belongs to a stream and to a partition")
    check_globs("--streams", split_names(options.streams))
    check_partitions("--partitions", split_names(options.partitions))
    return Windows(parse_interval(options.window, "--window"), parse_interval(options.late, "--lateness", least=0))


def _rollup(context: JobContext, options: RollupOptions, windows: Windows, accept_loss: bool) -> RollupSummary:
    head = context.identify_head()
    now_us = head.now_us
    kept = _keep_options(context.checkpoint / "rollup.json", options)
    done = RollupSummary(job="rollup", into=options.into, committed_id=head.head)
    path = context.checkpoint / "open.json"
    openness = _load_openness(path) or Openness(now_us)
    _save_openness(path, msgspec.structs.replace(openness, counts=max(openness.counts, 1)))  # if this round is killed

    def run(clock_us: int | None) -> Openness:
        rows = read(context, options, accept_loss)
        clock = read_clock(context.spark, clock_us) if kept.clock else None
        query = _start(context, count(rows, options, windows, clock), options)
        done.rows += context.await_query(query) - (clock_us is not None)  # the time is a row, too
        return _add_counts(done, query, openness, now_us)

    from mainstem.pipeline.jobs.clock import read_clock

    openness = run(None)
    clock_us = windows.find_clock(now_us, openness, of_events=options.time is not None) if kept.clock else None
    if clock_us is not None:
        openness = run(clock_us)
    _save_openness(path, openness)
    return done


def _start(context: JobContext, counts: DataFrame, options: RollupOptions) -> StreamingQuery:
    checkpoint = str((context.checkpoint / "query").resolve())
    return (
        counts.writeStream.format("mainstem")
        .options(**context.options, stream=options.into, checkpointLocation=checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


def _keep_options(path: Path, options: RollupOptions) -> KeptOptions:
    fields = msgspec.structs.asdict(options)
    if path.exists():
        before = msgspec.json.decode(path.read_bytes(), type=KeptOptions)
        if before != KeptOptions(**fields, clock=before.clock):
            raise BadOption(
                f"{path.parent} is the checkpoint of a rollup with other options ({_describe(before)}): give another "
                "--checkpoint"
            )
        return before
    kept = KeptOptions(**fields, clock=True)
    replace_file(path, msgspec.json.encode(kept))
    return kept


def _load_openness(path: Path) -> Openness | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Openness)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _save_openness(path: Path, openness: Openness) -> None:
    replace_file(path, msgspec.json.encode(openness))


FLAGS = {"late": "lateness"}


def _describe(options: KeptOptions) -> str:
    fields = msgspec.structs.asdict(options)
    del fields["clock"]
    given = {FLAGS.get(name, name): value for name, value in fields.items() if value is not None}
    shown = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return " ".join(f"--{name} {value}" for name, value in shown.items())


def _add_counts(done: RollupSummary, query: StreamingQuery, before: Openness, now_us: int) -> Openness:
    """Add what a run has counted, and return what it has left open. A run without a batch changes nothing."""
    openness = before
    counted_us = before.counted_us
    for report in query.recentProgress:
        for state in report["stateOperators"]:
            done.windows += int(state["numRowsRemoved"])
            done.late += int(state["numRowsDroppedByWatermark"])
            if int(state["numRowsUpdated"]):
                counted_us = now_us
            watermark = report["eventTime"].get("watermark")
            if watermark is not None:
                openness = Openness(counted_us, int(state["numRowsTotal"]), parse_time(watermark))
    done.open = openness.counts
    return openness


# Query


def read(context: JobContext, options: RollupOptions, accept_loss: bool) -> DataFrame:
    """Return the log without the counts, which are not counted themselves, and without the reports of jobs: each count
    would lead to a report, and each report to a count."""
    given = {"streams": options.streams, "partitions": options.partitions}
    chosen = {name: value for name, value in given.items() if value}
    chosen["failOnDataLoss"] = "false" if accept_loss else "true"
    rows = (
        context.spark.readStream.format("mainstem")
        .options(**context.options, **chosen, maxRowsPerTrigger=str(limits.ROLLUP_ROWS))
        .load()
    )
    return rows.where(~rows.stream.isin(options.into, JOBS_PATH) | rows.stream.isNull())


def count(rows: DataFrame, options: RollupOptions, windows: Windows, clock: DataFrame | None) -> DataFrame:
    """Return the counts. The times of the clock move the watermark, but they are not counted."""
    from pyspark.sql import functions as f

    dimensions = {
        "stream": lambda: f.col("stream"),
        "partition": lambda: f.explode_outer("partitions"),
        "client": lambda: f.coalesce("client_id", "producer_id"),
        "type": lambda: _field(options.type),
    }
    timed = rows.withColumn("at", f.col("committed_at") if options.time is None else _time_of(options.time))
    named = reduce(lambda table, name: table.withColumn(f"by_{name}", dimensions[name]()), options.by, timed)
    dated = named.where("at IS NOT NULL")
    if clock is None:
        watched = dated.withWatermark("at", windows.late)
    else:
        ticks = clock.select("at", f.lit(True).alias("is_tick"))
        joined = dated.withColumn("is_tick", f.lit(False)).unionByName(ticks, allowMissingColumns=True)
        # Spark would move a filter that does not concern the time in front of the watermark, which then stood still.
        watched = joined.withWatermark("at", windows.late).where("NOT is_tick OR at < TIMESTAMP '0002-01-01'")
    counted = watched.groupBy(
        f.window("at", windows.length).alias("window"), *[f.col(f"by_{name}") for name in options.by]
    ).agg(f.count("*").alias("messages"), f.sum(f.octet_length("data")).alias("bytes"))
    columns: list[Any] = [f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end")]
    columns += [f.col(f"by_{name}").alias(name) for name in options.by]
    return counted.select(*columns, "messages", "bytes")


def _field(name: str) -> Column:
    """Return a field of JSON messages as text, and null for other messages."""
    from pyspark.sql import functions as f

    is_json = (f.col("kind") == "event") | f.col("content_type").rlike("(?i)^application/json *(;|$)")
    return f.when(is_json, f.get_json_object(f.col("data").cast("string"), f"$.{name}"))


def _time_of(name: str) -> Column:
    """Return the time in a field: ISO 8601 text, or milliseconds since 1970."""
    from pyspark.sql import functions as f

    text = _field(name)
    millis = f.timestamp_millis(f.when(text.rlike("^[0-9]{1,15}$"), text).cast("bigint"))
    return f.when(text.rlike("^[0-9]{1,15}$"), millis).otherwise(f.try_to_timestamp(text))
