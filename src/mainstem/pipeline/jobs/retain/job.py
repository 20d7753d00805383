"""retain: computes from policies what to prune of each partition and stream, and tells the server to prune it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import BadPolicy
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.retain.policies import Policies
from mainstem.pipeline.jobs.targets import PARTITION, STREAM

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TARGET = ("kind", "name", "read_seq")
COLUMNS = ("committed_id", "stream", "offset", "partitions", "content_type", "committed_at")


class RetainSummary(Summary, kw_only=True):
    """What a round has pruned, or in a dry run would prune."""

    partitions: int = 0
    """The number of partitions whose floor has risen."""
    streams: int = 0
    given_up: int = 0
    """The number of events and messages below the floors. An event counts once per partition that has pruned it."""
    given_up_bytes: int | None = None
    """Their size. It is known if a policy has max_bytes, or in a dry run."""
    erased: int | None = None
    """In a dry run, the number that the server would erase: those that every one of their partitions has pruned."""
    erased_bytes: int | None = None
    held: int = 0
    """The number of streams that keep everything because forks read it."""
    gone: int = 0
    """The number of streams that were deleted meanwhile."""
    archived: dict[str, int] = msgspec.field(default_factory=dict)
    """The committed id that each archive has reached."""
    policies: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of events and messages that each policy has pruned."""
    targets: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """In a dry run, the targets that would lose most: kind, name, policy, messages, bytes, floor."""
    problems: list[str] = msgspec.field(default_factory=list)
    dry_run: bool = False


@dataclass(frozen=True)
class RetainOptions:
    policies: Policies
    clock_s: Callable[[], float] = time.time


def make_retain(options: RetainOptions) -> Job:
    """Return a job that prunes history according to the policies."""
    return partial(_retain, options=options)


def _retain(context: JobContext, options: RetainOptions) -> RetainSummary:
    from pyspark import StorageLevel

    from mainstem.pipeline.jobs.ranges import show_task_progress

    until = context.read_head()
    policies = options.policies
    done = RetainSummary(job="retain", committed_id=until, dry_run=context.dry_run)
    done.archived = {table: _archived_until(table, context, until) for table in policies.archives}
    if not until or not (policies.has(PARTITION) or policies.has(STREAM)):
        return done
    measured = context.dry_run or any(policy.max_bytes is not None for policy in policies.all)
    records = _read(context, policies, until, measured)
    if context.dry_run:
        records = records.persist(StorageLevel.DISK_ONLY)
    floors = _find_floors(context, policies, records, done.archived, options.clock_s()).persist(StorageLevel.DISK_ONLY)
    try:
        with show_task_progress(context, until, "estimating" if context.dry_run else "pruning"):
            _count(floors, policies, measured, done)
        if context.dry_run:
            _estimate(records, floors, policies, done)
    finally:
        floors.unpersist()
        records.unpersist()
    return done


def _archived_until(table: str, context: JobContext, head: int) -> int:
    from mainstem.pipeline.lake.archive_table import open_archive
    from mainstem.pipeline.lake.log_identity import check_same_log

    archive = open_archive(table)
    if not archive.exists:
        raise BadPolicy(f"there is no archive at {table}: run `mainstem pipeline archive` first")
    check_same_log(archive, context.server, head)
    return archive.reached_id()


def _read(context: JobContext, policies: Policies, until: int, measured: bool) -> DataFrame:
    from mainstem.pipeline.jobs.ranges import map_ranges, split_range
    from mainstem.pipeline.jobs.retain.pruning import RECORDS, extract_records
    from mainstem.pipeline.log_reader import Selection
    from mainstem.pipeline.spark.session import count_task_slots

    kinds = [kind for kind, name in (("stream", STREAM), ("event", PARTITION)) if policies.has(name)]
    selection = Selection(kind=kinds[0]) if len(kinds) == 1 else Selection()
    columns = (*COLUMNS, "data") if measured else COLUMNS
    ranges = split_range(0, until, count_task_slots(context.spark))
    return map_ranges(context, ranges, selection, columns, lambda: partial(extract_records, policies), RECORDS)


def _find_floors(
    context: JobContext, policies: Policies, records: DataFrame, archived: dict[str, int], now_s: float
) -> DataFrame:
    """Compute `policies.find_floor` for all targets at once: first the bounds, then the requirements."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.jobs.retain.pruning import FLOORS, Pruner

    slots = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 2)
    of_target = Window.partitionBy(*TARGET)
    newest_first = of_target.orderBy(f.desc("committed_id"))
    oldest_first = of_target.orderBy("committed_id")
    up_to_here = (Window.unboundedPreceding, Window.currentRow)

    def bound(values: list[int | None]) -> Column:
        return f.element_at(f.array(*(f.lit(value).cast("bigint") for value in values)), f.col("policy") + 1)

    every = policies.all
    ages = [None if p.max_age_s is None else int((now_s - p.max_age_s) * 1_000_000) for p in every]
    prunable = (
        ~f.coalesce(bound([int(p.bounded) for p in every]) == 1, f.lit(False))
        | f.coalesce(f.col("committed_at") < bound(ages), f.lit(False))
        | f.coalesce(
            f.sum("messages").over(newest_first.rowsBetween(*up_to_here)) > bound([p.max_events for p in every]),
            f.lit(False),
        )
        | f.coalesce(
            f.sum("size").over(newest_first.rowsBetween(*up_to_here)) > bound([p.max_bytes for p in every]),
            f.lit(False),
        )
    )
    newest = (f.col("kind") == STREAM) & (f.row_number().over(newest_first) == 1)
    going = (
        records.repartition(slots, *TARGET)
        .withColumn("kept", newest | ~prunable)
        .withColumn("following", f.lead("start", 1, 0).over(oldest_first))
        .withColumn("retained", f.max("kept").over(oldest_first.rowsBetween(*up_to_here)))
        .where("NOT retained")
        .select(*TARGET, "policy", "committed_id", "committed_at", "messages", "size", "start", "following")
        .sortWithinPartitions(*TARGET, "committed_id")
    )
    pruner = Pruner(context.server, every, archived, context.dry_run)
    return going.mapInArrow(pruner.prune, from_arrow_schema(FLOORS))


def _count(floors: DataFrame, policies: Policies, measured: bool, done: RetainSummary) -> None:
    from pyspark.sql import functions as f

    sums = [f.sum(name).alias(name) for name in ("messages", "size")]
    found = floors.groupBy("kind", "status", "policy").agg(f.count("*").alias("targets"), *sums).collect()
    size = 0
    for row in found:
        targets = int(row["targets"])
        if row["status"] == "pruned":
            name = policies.all[row["policy"]].name
            done.policies[name] = done.policies.get(name, 0) + int(row["messages"])
            done.given_up += int(row["messages"])
            size += int(row["size"])
            if row["kind"] == PARTITION:
                done.partitions += targets
            else:
                done.streams += targets
        elif row["status"] == "held":
            done.held += targets
        elif row["status"] == "gone":
            done.gone += targets
        elif row["status"] == "failed":
            done.faults += targets
    done.rows = done.given_up
    done.given_up_bytes = size if measured else None
    if done.faults:
        failed = floors.where("status = 'failed'").limit(limits.PROBLEMS_TOLD_MAX).collect()
        done.problems = [f"{row['kind']} {row['name']}: {row['detail']}" for row in failed]


def _estimate(records: DataFrame, floors: DataFrame, policies: Policies, done: RetainSummary) -> None:
    """Fill in what the server would erase, and which targets would lose most."""
    from pyspark.sql import functions as f

    passed = records.join(floors.select(*TARGET, "reached"), list(TARGET)).where("committed_id <= reached")
    whole = passed.groupBy("kind", "committed_id").agg(
        f.count("*").alias("passed"),
        f.first("shares").alias("shares"),
        f.first("messages").alias("messages"),
        f.first("size").alias("size"),
    )
    [row] = whole.where("passed = shares").agg(f.sum("messages").alias("n"), f.sum("size").alias("size")).collect()
    done.erased, done.erased_bytes = int(row["n"] or 0), int(row["size"] or 0)
    largest = floors.where("status = 'pruned'").orderBy(f.desc("size"), "kind", "name")
    for row in largest.limit(limits.PRUNED_TOLD_MAX).collect():
        fields = {"kind": row["kind"], "name": row["name"], "policy": policies.all[row["policy"]].name}
        done.targets.append(
            fields | {"messages": int(row["messages"]), "bytes": int(row["size"]), "floor": int(row["floor"])}
        )
