"""snapshot: folds partitions and JSON streams into their states up to one committed id, and stores the states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.targets import COLUMNS, PARTITION, TargetSelector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.pipeline.jobs.snapshot.reducers import Function, LastWriterWins, StateProtocol, Tree
    from mainstem.pipeline.log_reader import Head

ORDERED_COLUMNS = (*COLUMNS, "id", "client_id", "committed_at")


class SnapshotSummary(Summary, kw_only=True):
    """What a round has stored."""

    partitions: int = 0
    streams: int = 0
    ignored: int = 0
    """The number of messages that the reducer ignored."""
    bytes: int = 0
    """The size of all states that were stored."""
    unchanged: int = 0
    passed: int = 0
    """The number of targets for which another client has stored a newer snapshot meanwhile."""
    gone: int = 0
    """The number of streams that were deleted meanwhile."""
    problems: list[str] = msgspec.field(default_factory=list)
    """The first few targets that could not be folded, with the reason."""
    dry_run: bool = False


@dataclass(frozen=True)
class SnapshotOptions:
    """The targets and the reducer."""

    selector: TargetSelector
    reducer: LastWriterWins | StateProtocol | Tree | Function
    partial: bool = False

    def describe(self) -> str:
        """Return a text that is the same only for options that yield the same states from the same log."""
        return f"{self.reducer!r} over partitions {self.selector.partitions} and streams {self.selector.streams}"


class LaggingTarget(msgspec.Struct, frozen=True, array_like=True):
    """A target that could not be folded: its snapshot is still the one at `after`."""

    kind: str
    name: str
    after: int


class SnapshotCheckpoint(msgspec.Struct, frozen=True):
    """The committed id up to which all targets are folded, except the lagging ones. It is stored as place.json."""

    plan: str
    url: str
    committed_id: int = 0
    lagging: tuple[LaggingTarget, ...] = msgspec.field(default=(), name="behind")
    log: str | None = None
    """The id of the log, and the epoch of `committed_id`; None in the checkpoint of an older version."""
    epoch: str | None = None


def make_snapshot(options: SnapshotOptions) -> Job:
    """Return a job that stores snapshots."""
    options.selector.check()
    return partial(_snapshot, options=options)


def _snapshot(context: JobContext, options: SnapshotOptions) -> SnapshotSummary:
    head = context.identify_head()
    until = head.head
    path = context.checkpoint / "place.json"
    checkpoint = _load(path, SnapshotCheckpoint(options.describe(), context.server.url), head)
    done = SnapshotSummary(job="snapshot", committed_id=until, dry_run=context.dry_run)
    if until == checkpoint.committed_id and not checkpoint.lagging:
        return done
    lagging = _fold(context, options, checkpoint, until, done)
    if not context.dry_run and len(lagging) <= limits.SNAPSHOTS_BEHIND_MAX:
        end = head.locate(until)
        reached = SnapshotCheckpoint(checkpoint.plan, context.server.url, until, tuple(lagging), end.log, end.epoch)
        replace_file(path, msgspec.json.encode(reached))
    return done


def _fold(
    context: JobContext, options: SnapshotOptions, checkpoint: SnapshotCheckpoint, until: int, done: SnapshotSummary
) -> list[LaggingTarget]:
    """Fold everything, and return the targets that could not be folded."""
    from pyspark import StorageLevel

    from mainstem.pipeline.jobs.ranges import show_task_progress
    from mainstem.pipeline.jobs.snapshot.fold import Fold

    fold = Fold(context.server, options.reducer, until, options.partial, context.dry_run)
    rows = _read(context, options, options.selector, checkpoint.committed_id, until)
    if checkpoint.lagging:
        names = frozenset((one.kind, one.name) for one in checkpoint.lagging)
        late = TargetSelector(options.selector.partitions, options.selector.streams, names)
        first = min(one.after for one in checkpoint.lagging)
        rows = rows.unionAll(_read(context, options, late, first, checkpoint.committed_id))
    results = _gather(rows, fold).persist(StorageLevel.DISK_ONLY)
    try:
        with show_task_progress(context, until, "fold"):
            _count(results, done)
        return _find_lagging(results, done)
    finally:
        results.unpersist()


def _read(context: JobContext, options: SnapshotOptions, selector: TargetSelector, after: int, until: int) -> DataFrame:
    from mainstem.pipeline.jobs.ranges import map_ranges, split_range
    from mainstem.pipeline.jobs.snapshot.fold import COMBINED, MESSAGES, Combiner, extract_messages
    from mainstem.pipeline.spark.session import count_task_slots

    ranges = split_range(after, until, count_task_slots(context.spark))
    reducer: Any = options.reducer
    if _is_keyed(reducer):
        return map_ranges(
            context, ranges, selector.selection(), COLUMNS, lambda: Combiner(reducer, selector).combine, COMBINED
        )
    return map_ranges(
        context, ranges, selector.selection(), ORDERED_COLUMNS, lambda: partial(extract_messages, selector), MESSAGES
    )


def _is_keyed(reducer: Any) -> bool:
    return hasattr(reducer, "extract")


def _gather(rows: DataFrame, fold: Any) -> DataFrame:
    """Bring all rows of a target to one task, in order, and for keyed reducers only the newest row of each key."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.jobs.snapshot.fold import COMBINED, RESULTS

    target = ["kind", "name", "read_seq"]
    slots = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 2)
    results = from_arrow_schema(RESULTS)
    if not _is_keyed(fold.reducer):
        order = [*target, "committed_id", "position"]
        sorted_rows = rows.repartition(slots, *target).sortWithinPartitions(*order)
        return sorted_rows.mapInArrow(fold.fold_ordered, results)
    position = f.struct("committed_id", "position")
    newest = rows.groupBy(*target, "role", "group", "key").agg(
        f.max(position).alias("newest"),
        f.max_by("value", position).alias("value"),
        f.sum("messages").alias("messages"),
        f.sum("ignored").alias("ignored"),
        f.min("first").alias("first"),
        f.max("end").alias("end"),
    )
    flat = newest.select("*", "newest.committed_id", "newest.position").select(*COMBINED.names)
    return (
        flat.repartition(slots, *target).sortWithinPartitions(*target, "role").mapInArrow(fold.fold_combined, results)
    )


def _count(results: DataFrame, done: SnapshotSummary) -> None:
    from pyspark.sql import functions as f

    sums = [f.sum(name).alias(name) for name in ("messages", "ignored", "size")]
    for row in results.groupBy("kind", "status").agg(f.count("*").alias("targets"), *sums).collect():
        targets, status = int(row["targets"]), row["status"]
        if status == "put":
            done.rows += int(row["messages"])
            done.ignored += int(row["ignored"])
            done.bytes += int(row["size"])
            if row["kind"] == PARTITION:
                done.partitions += targets
            else:
                done.streams += targets
        elif status == "failed":
            done.faults += targets
        else:
            setattr(done, status, getattr(done, status) + targets)


def _find_lagging(results: DataFrame, done: SnapshotSummary) -> list[LaggingTarget]:
    if not done.faults:
        return []
    failed = results.where("status = 'failed'").orderBy("kind", "name").limit(limits.SNAPSHOTS_BEHIND_MAX + 1).collect()
    done.problems = [f"{row['kind']} {row['name']}: {row['detail']}" for row in failed[: limits.PROBLEMS_TOLD_MAX]]
    return [LaggingTarget(row["kind"], row["name"], int(row["after"])) for row in failed]


def _load(path: Path, fresh: SnapshotCheckpoint, head: Head) -> SnapshotCheckpoint:
    from mainstem.pipeline.log_reader import Position, check_position, check_reached

    if not path.exists():
        return fresh
    try:
        found = msgspec.json.decode(path.read_bytes(), type=SnapshotCheckpoint)
    except msgspec.MsgspecError:
        raise BadOption(
            f"{path} is not a checkpoint of this job, or it is damaged: give another --checkpoint"
        ) from None
    if found.plan != fresh.plan:
        raise BadOption(f"{path.parent} is the checkpoint of other snapshots ({found.plan}): give another --checkpoint")
    check_position(head, Position(found.committed_id, found.log, found.epoch), str(path.parent))
    if found.url != fresh.url and (found.log is None or head.log is None):
        return fresh  # perhaps the same log at another address: the stored snapshots show how far they go
    check_reached(str(path.parent), found.committed_id, head)
    return found
