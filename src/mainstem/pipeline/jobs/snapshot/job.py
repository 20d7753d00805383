"""snapshot: fold partitions and JSON streams into their states up to one committed id, and put the states back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.targets import COLUMNS, PARTITION, Choice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.pipeline.jobs.snapshot.reducers import Function, LastWriterWins, StateProtocol, Tree

ORDERED_COLUMNS = (*COLUMNS, "id", "client_id", "committed_at")


class SnapshotSummary(Summary, kw_only=True):
    """What a round has put."""

    partitions: int = 0
    streams: int = 0
    ignored: int = 0
    """Messages that meant nothing to the reducer."""
    bytes: int = 0
    """Of all states that were put."""
    unchanged: int = 0
    passed: int = 0
    """Targets of which somebody else has put a newer snapshot meanwhile."""
    gone: int = 0
    """Streams that were deleted meanwhile."""
    problems: list[str] = msgspec.field(default_factory=list)
    """The first few targets that could not be folded, and why."""
    dry_run: bool = False


@dataclass(frozen=True)
class SnapshotOptions:
    """What is folded, and how."""

    choice: Choice
    reducer: LastWriterWins | StateProtocol | Tree | Function
    partial: bool = False

    def describe(self) -> str:
        """The same text only for what makes the same states of the same log."""
        return f"{self.reducer!r} over partitions {self.choice.partitions} and streams {self.choice.streams}"


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """A target that could not be folded: its snapshot still ends at `after`."""

    kind: str
    name: str
    after: int


class Place(msgspec.Struct, frozen=True):
    """How far all targets have been folded, but for those that are behind."""

    plan: str
    url: str
    committed_id: int = 0
    behind: tuple[Behind, ...] = ()


def make_snapshot(options: SnapshotOptions) -> Job:
    options.choice.check()
    return partial(_snapshot, options=options)


def _snapshot(context: JobContext, options: SnapshotOptions) -> SnapshotSummary:
    until = context.read_head()
    path = context.checkpoint / "place.json"
    place = _load(path, Place(options.describe(), context.server.url), until)
    done = SnapshotSummary(job="snapshot", committed_id=until, dry_run=context.dry_run)
    if until == place.committed_id and not place.behind:
        return done
    behind = _fold(context, options, place, until, done)
    if not context.dry_run and len(behind) <= limits.SNAPSHOTS_BEHIND_MAX:
        _save(path, Place(place.plan, place.url, until, tuple(behind)))
    return done


def _fold(
    context: JobContext, options: SnapshotOptions, place: Place, until: int, done: SnapshotSummary
) -> list[Behind]:
    """Fold everything; which targets are behind now."""
    from pyspark import StorageLevel

    from mainstem.pipeline.jobs.ranges import show_task_progress
    from mainstem.pipeline.jobs.snapshot.folds import Folding

    folding = Folding(context.server, options.reducer, until, options.partial, context.dry_run)
    rows = _read(context, options, options.choice, place.committed_id, until)
    if place.behind:
        names = frozenset((one.kind, one.name) for one in place.behind)
        late = Choice(options.choice.partitions, options.choice.streams, names)
        first = min(one.after for one in place.behind)
        rows = rows.unionAll(_read(context, options, late, first, place.committed_id))
    results = _gather(rows, folding).persist(StorageLevel.DISK_ONLY)
    try:
        with show_task_progress(context, until, "folding"):
            _count(results, done)
        return _find_behind(results, done)
    finally:
        results.unpersist()


def _read(context: JobContext, options: SnapshotOptions, choice: Choice, after: int, until: int) -> DataFrame:
    from mainstem.pipeline.jobs.ranges import map_ranges, split_range
    from mainstem.pipeline.jobs.snapshot.folds import COMBINED, TAKEN, Combiner, take_in_order
    from mainstem.pipeline.spark.session import count_task_slots

    ranges = split_range(after, until, count_task_slots(context.spark))
    reducer: Any = options.reducer
    if _is_keyed(reducer):
        return map_ranges(
            context, ranges, choice.selection(), COLUMNS, lambda: Combiner(reducer, choice).combine, COMBINED
        )
    return map_ranges(
        context, ranges, choice.selection(), ORDERED_COLUMNS, lambda: partial(take_in_order, choice), TAKEN
    )


def _is_keyed(reducer: Any) -> bool:
    return hasattr(reducer, "extract")


def _gather(rows: DataFrame, folding: Any) -> DataFrame:
    """All rows of a target to one task, and there one after the other; of a key only the newest."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.jobs.snapshot.folds import COMBINED, RESULTS

    target = ["kind", "name", "life"]
    slots = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 2)
    results = from_arrow_schema(RESULTS)
    if not _is_keyed(folding.reducer):
        order = [*target, "committed_id", "position"]
        sorted_rows = rows.repartition(slots, *target).sortWithinPartitions(*order)
        return sorted_rows.mapInArrow(folding.fold_ordered, results)
    place = f.struct("committed_id", "position")
    newest = rows.groupBy(*target, "role", "group", "key").agg(
        f.max(place).alias("place"),
        f.max_by("value", place).alias("value"),
        f.sum("messages").alias("messages"),
        f.sum("ignored").alias("ignored"),
        f.min("first").alias("first"),
        f.max("end").alias("end"),
    )
    flat = newest.select("*", "place.committed_id", "place.position").select(*COMBINED.names)
    return (
        flat.repartition(slots, *target)
        .sortWithinPartitions(*target, "role")
        .mapInArrow(folding.fold_combined, results)
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
        elif status == "fault":
            done.faults += targets
        else:
            setattr(done, status, getattr(done, status) + targets)


def _find_behind(results: DataFrame, done: SnapshotSummary) -> list[Behind]:
    if not done.faults:
        return []
    failed = results.where("status = 'fault'").orderBy("kind", "name").limit(limits.SNAPSHOTS_BEHIND_MAX + 1).collect()
    done.problems = [f"{row['kind']} {row['name']}: {row['detail']}" for row in failed[: limits.PROBLEMS_TOLD_MAX]]
    return [Behind(row["kind"], row["name"], int(row["after"])) for row in failed]


def _load(path: Path, fresh: Place, head: int) -> Place:
    if not path.exists():
        return fresh
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Place)
    except msgspec.MsgspecError as error:
        raise BadOption(f"{path} is not a place of this job ({error}): give another --checkpoint") from None
    if found.plan != fresh.plan:
        raise BadOption(f"{path.parent} belongs to other snapshots ({found.plan}): give another --checkpoint")
    if found.url != fresh.url:
        return fresh  # perhaps the same log at another address: the snapshots themselves tell how far they go
    if found.committed_id > head:
        raise BadOption(
            f"{path.parent} has come to committed id {found.committed_id}, but the log of {fresh.url} ends at {head}: "
            "it is another server's, or an older copy. Give another --checkpoint"
        )
    return found


def _save(path: Path, place: Place) -> None:
    """All or nothing, also when the machine goes down."""
    new = path.with_suffix(".new")
    with open(new, "wb") as file:
        file.write(msgspec.json.encode(place))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
