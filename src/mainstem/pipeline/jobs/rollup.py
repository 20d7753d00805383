"""rollup: counts messages and bytes per time window and dimension, and writes each count once into a stream."""

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
from mainstem.pipeline.jobs.durations import parse_interval
from mainstem.pipeline.option_checks import check_globs, check_partitions
from mainstem.streams.rules.paths import JOBS_PATH, check_path

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


@dataclass(frozen=True)
class Windows:
    length: str
    late: str


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
    return Windows(parse_interval(options.window, "--window"), parse_interval(options.late, "--late", least=0))


def _rollup(context: JobContext, options: RollupOptions, windows: Windows, accept_loss: bool) -> RollupSummary:
    head = context.read_head()
    _keep_options(context.checkpoint / "rollup.json", options)
    checkpoint = str((context.checkpoint / "query").resolve())
    query = (
        count(read(context, options, accept_loss), options, windows)
        .writeStream.format("mainstem")
        .options(**context.options, stream=options.into, checkpointLocation=checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    rows = context.await_query(query)
    done = RollupSummary(job="rollup", into=options.into, rows=rows, committed_id=head)
    _add_counts(done, query)
    return done


def _keep_options(path: Path, options: RollupOptions) -> None:
    if path.exists():
        before = msgspec.json.decode(path.read_bytes(), type=RollupOptions)
        if before != options:
            raise BadOption(
                f"{path.parent} is the checkpoint of a rollup with other options ({_describe(before)}): give another "
                "--checkpoint"
            )
        return
    replace_file(path, msgspec.json.encode(options))


def _describe(options: RollupOptions) -> str:
    given = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not None}
    shown = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return " ".join(f"--{name} {value}" for name, value in shown.items())


def _add_counts(done: RollupSummary, query: StreamingQuery) -> None:
    for report in query.recentProgress:
        for state in report["stateOperators"]:
            done.windows += int(state["numRowsRemoved"])
            done.late += int(state["numRowsDroppedByWatermark"])
            done.open = int(state["numRowsTotal"])


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


def count(rows: DataFrame, options: RollupOptions, windows: Windows) -> DataFrame:
    from pyspark.sql import functions as f

    dimensions = {
        "stream": lambda: f.col("stream"),
        "partition": lambda: f.explode_outer("partitions"),
        "client": lambda: f.coalesce("client_id", "producer_id"),
        "type": lambda: _field(options.type),
    }
    timed = rows.withColumn("at", f.col("committed_at") if options.time is None else _time_of(options.time))
    named = reduce(lambda table, name: table.withColumn(f"by_{name}", dimensions[name]()), options.by, timed)
    counted = (
        named.where("at IS NOT NULL")
        .withWatermark("at", windows.late)
        .groupBy(f.window("at", windows.length).alias("window"), *[f.col(f"by_{name}") for name in options.by])
        .agg(f.count("*").alias("messages"), f.sum(f.octet_length("data")).alias("bytes"))
    )
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
