"""retain: computes from policies what to prune of each partition and stream, and tells the server to prune it.

A round asks the server what each target holds, and reads rows only if a policy can prune them. See
docs/adr/0028-retention-and-quiet-windows.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import BadPolicy
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.retain.checkpoint import (
    Checkpoint,
    PartitionProgress,
    StreamProgress,
    load_checkpoint,
    save_checkpoint,
)
from mainstem.pipeline.jobs.retain.policies import Policies
from mainstem.pipeline.jobs.targets import PARTITION, STREAM

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem.pipeline.jobs.retain.planning import Bounds, Group, Kept, Work
    from mainstem.pipeline.jobs.retain.pruning import Pruner, Result
    from mainstem.pipeline.jobs.retain.survey import Surveyed
    from mainstem.pipeline.log_reader import Head


UNKNOWN = -1
"""The floor of a partition that has to be counted again."""


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
    read: int = 0
    """The number of rows of the log that were read."""
    archived: dict[str, int] = msgspec.field(default_factory=dict)
    """The committed id that each archive has reached."""
    policies: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of events and messages that each policy has pruned."""
    kept: dict[str, str] = msgspec.field(default_factory=dict)
    """Why each policy has left partitions or streams as they are."""
    targets: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """In a dry run, the targets that would lose most: kind, name, policy, messages, bytes, floor."""
    problems: list[str] = msgspec.field(default_factory=list)
    dry_run: bool = False


@dataclass(frozen=True)
class RetainOptions:
    policies: Policies
    clock_us: Callable[[], int] | None = None
    """Replaces the clock of the server, in tests."""


def make_retain(options: RetainOptions) -> Job:
    """Return a job that prunes history according to the policies."""
    return partial(_retain, options=options)


def _retain(context: JobContext, options: RetainOptions) -> RetainSummary:
    head = context.identify_head()
    until = head.head
    policies = options.policies
    now_us = head.now_us if options.clock_us is None else options.clock_us()
    done = RetainSummary(job="retain", committed_id=until, dry_run=context.dry_run)
    done.archived = {table: _archived_until(table, context, head) for table in policies.archives}
    if not until or not (policies.has(PARTITION) or policies.has(STREAM)):
        return done
    log = f"{head.log} {head.locate(until).epoch}"
    checkpoint = load_checkpoint(context.checkpoint, log, policies, until)
    return _Round(context, policies, until, now_us, checkpoint, done).run()


def _archived_until(table: str, context: JobContext, head: Head) -> int:
    from mainstem.pipeline.lake.archive_table import open_archive
    from mainstem.pipeline.lake.log_identity import check_same_log

    archive = open_archive(table)
    if not archive.exists:
        raise BadPolicy(f"there is no archive at {table}: run `mainstem pipeline archive` first")
    check_same_log(archive, context.server, head)
    return archive.reached_id()


class _Round:
    def __init__(
        self,
        context: JobContext,
        policies: Policies,
        head: int,
        now_us: int,
        checkpoint: Checkpoint,
        done: RetainSummary,
    ) -> None:
        self._context = context
        self._policies = policies
        self._head = head
        self._now_us = now_us
        self._before = checkpoint
        self._after = Checkpoint(checkpoint.log, checkpoint.policies, head)
        self._done = done
        self._floors: dict[str, int] = {}
        """The floors of partitions, before this round."""
        self._kept: Counter[tuple[int, Kept]] = Counter()
        self._matched: set[int] = set()
        self._examined: dict[tuple[str, str], Surveyed] = {}
        """The targets whose rows are read."""
        self._measured = context.dry_run or any(policy.max_bytes is not None for policy in policies.all)

    def run(self) -> RetainSummary:
        from mainstem.pipeline.jobs.retain.planning import Kept, explain_kept, plan

        bounds = self._bounds = self._find_bounds()
        works: list[Work] = []
        for found in self._survey():
            self._matched.add(found.policy)
            self._remember(found)
            planned = plan(found, self._policies.all[found.policy], bounds)
            if isinstance(planned, Kept):
                self._kept[found.policy, planned] += 1
                self._done.held += planned is Kept.FORKS
            else:
                works.append(planned)
                self._examined[found.target.kind, found.target.name] = found
        if works:
            self._prune(works)
        elif self._context.dry_run:
            self._done.erased = self._done.erased_bytes = 0
        self._done.rows = self._done.given_up
        if not self._measured:
            self._done.given_up_bytes = None
        self._done.kept = explain_kept(self._policies, self._kept, self._matched, bounds)
        if not self._context.dry_run:
            save_checkpoint(self._context.checkpoint, self._after)
        return self._done

    # Before any row is read

    def _find_bounds(self) -> Bounds:
        from mainstem.pipeline.jobs.retain.ages import find_older
        from mainstem.pipeline.jobs.retain.planning import Bounds

        ages = {policy.max_age_s for policy in self._policies.all if policy.max_age_s is not None}
        with self._context.open_client() as client:
            older = {age: find_older(client, self._now_us - age * 1_000_000, self._head) for age in ages}
        return Bounds(self._head, self._now_us, older, self._done.archived)

    def _survey(self) -> list[Surveyed]:
        """List the targets, with what the checkpoint knows about them, and count the events that are new."""
        from mainstem.pipeline.jobs.retain.counting import count_events
        from mainstem.pipeline.jobs.retain.survey import survey

        with self._context.open_client() as client:
            found = list(survey(client, self._policies))
        self._floors = {one.target.name: one.floor for one in found if one.target.kind == PARTITION and one.floor}
        counted = any(policy.kind == PARTITION and policy.counted for policy in self._policies.all)
        after = self._before.counted if self._is_usable(found) else 0
        partitions = self._before.partitions if after else {}
        counts = count_events(self._context, self._policies, self._floors, after, self._head if counted else after)
        self._done.read += counts.read
        for one in found:
            name = one.target.name
            if one.target.kind == PARTITION:
                known = partitions.get(name, PartitionProgress())
                one.messages = known.messages + counts.messages.get(name, 0)
                one.size = known.size + counts.size.get(name, 0)
                one.first = max(one.first, known.first)
            else:
                before = self._before.streams.get(name)
                if before is not None and before.read_seq == one.target.read_seq:
                    one.first, one.examined = max(one.first, before.first), True
        return found

    def _is_usable(self, found: Iterable[Surveyed]) -> bool:
        """Return whether the counts of the last round still hold: they do unless another client has raised a floor."""
        known = self._before.partitions
        return all(
            one.target.name not in known or known[one.target.name].floor == one.floor
            for one in found
            if one.target.kind == PARTITION and self._policies.all[one.policy].counted
        )

    def _remember(self, found: Surveyed) -> None:
        if found.target.kind == PARTITION:
            progress = PartitionProgress(found.floor, found.first, found.messages, found.size)
            self._after.partitions[found.target.name] = progress
        elif found.examined:
            self._after.streams[found.target.name] = StreamProgress(found.target.read_seq, found.first)

    # Reading and pruning

    def _prune(self, works: list[Work]) -> None:
        from pyspark import StorageLevel

        from mainstem.pipeline.jobs.ranges import show_task_progress
        from mainstem.pipeline.jobs.retain.planning import make_groups
        from mainstem.pipeline.jobs.retain.pruning import Pruner, Result
        from mainstem.pipeline.spark.session import count_task_slots

        context = self._context
        groups = make_groups(works, count_task_slots(context.spark))
        pruner = Pruner(
            context.server, self._policies.all, self._now_us, context.dry_run, self._measured, limits.RETAIN_PAGE_BYTES
        )
        results = _map_groups(context, groups, pruner).persist(StorageLevel.DISK_ONLY)
        try:
            with show_task_progress(context, self._head, "estimating" if context.dry_run else "pruning"):
                for row in results.where("status != 'shared'").toLocalIterator():
                    self._note(Result(*row))
            if context.dry_run:
                self._estimate(results)
        finally:
            results.unpersist()

    def _note(self, result: Result) -> None:
        """Add the result of one target to the summary and to the checkpoint."""
        from mainstem.pipeline.jobs.retain.planning import Kept

        done, after = self._done, self._after
        done.read += result.read
        name = result.name
        if result.kind == STREAM and result.status in ("pruned", "unchanged", "held"):
            after.streams[name] = StreamProgress(result.read_seq, result.first)
        if result.status == "pruned":
            self._note_pruned(result)
        elif result.status == "unchanged":
            self._kept[result.policy, self._explain(result)] += 1
            if result.kind == PARTITION:
                after.partitions[name].first = result.first
        elif result.status == "held":
            done.held += 1
            self._kept[result.policy, Kept.FORKS] += 1
        elif result.status == "changed":
            self._kept[result.policy, Kept.CHANGED] += 1
            if result.kind == PARTITION:
                after.partitions[name].floor = UNKNOWN
        elif result.status == "gone":
            done.gone += 1
        else:
            done.faults += 1
            if len(done.problems) < limits.PROBLEMS_TOLD_MAX:
                done.problems.append(f"{result.kind} {name}: {result.detail}")

    def _explain(self, result: Result) -> Kept:
        """Return why nothing was pruned of a target, now that the id of its first row is known."""
        from mainstem.pipeline.jobs.retain.planning import Kept, plan

        found = self._examined[result.kind, result.name]
        found.first = result.first
        planned = plan(found, self._policies.all[result.policy], self._bounds)
        return planned if isinstance(planned, Kept) else Kept.WITHIN

    def _note_pruned(self, result: Result) -> None:
        done = self._done
        policy = self._policies.all[result.policy].name
        done.policies[policy] = done.policies.get(policy, 0) + result.messages
        done.given_up += result.messages
        done.given_up_bytes = (done.given_up_bytes or 0) + result.size
        if result.kind == PARTITION:
            done.partitions += 1
            progress = self._after.partitions[result.name]
            progress.floor, progress.first = result.floor, result.first
            progress.messages -= result.messages
            progress.size -= result.size
            self._floors[result.name] = result.floor
        else:
            done.streams += 1

    def _estimate(self, results: DataFrame) -> None:
        """Fill in what the server would erase, and which targets would lose most."""
        from pyspark.sql import functions as f

        done = self._done
        floors = self._context.spark.createDataFrame(
            [*self._floors.items()] or [("", 0)], "name STRING, reached BIGINT"
        )
        shared = results.where("status = 'shared'").select("floor", "size", "partitions")
        passed = (
            shared.dropDuplicates(["floor"])
            .select("floor", "size", f.explode("partitions").alias("name"))
            .join(floors, "name", "left")
            .groupBy("floor", "size")
            .agg(f.min(f.coalesce("reached", f.lit(0))).alias("reached"))
            .agg(f.count_if(f.expr("reached >= floor")), f.sum(f.when(f.expr("reached >= floor"), f.col("size"))))
        )
        [(erased, erased_bytes)] = passed.collect()
        # Of the events that partitions would give up, those with several partitions are in `shared`.
        given = results.where("status = 'pruned'").agg(f.sum("messages"), f.sum("size")).collect()[0]
        several = shared.agg(f.count("*"), f.sum("size")).collect()[0]
        done.erased = int(given[0] or 0) - int(several[0]) + int(erased)
        done.erased_bytes = int(given[1] or 0) - int(several[1] or 0) + int(erased_bytes or 0)
        largest = results.where("status = 'pruned'").orderBy(f.desc("size"), "kind", "name")
        for row in largest.limit(limits.PRUNED_TOLD_MAX).collect():
            fields = {"kind": row["kind"], "name": row["name"], "policy": self._policies.all[row["policy"]].name}
            done.targets.append(
                fields | {"messages": int(row["messages"]), "bytes": int(row["size"]), "floor": int(row["floor"])}
            )


def _map_groups(context: JobContext, groups: list[Group], pruner: Pruner) -> DataFrame:
    """Return the results of all groups. Each task prunes one of them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from mainstem.pipeline.jobs.retain.pruning import RESULTS

    def prune(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from pruner.prune(groups[number])

    return context.spark.range(0, len(groups), 1, len(groups)).mapInArrow(prune, from_arrow_schema(RESULTS))
