"""audit: recomputes what the log guarantees, and compares it with the server's indexes and with an archive."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem import limits
from mainstem.errors import StageLost
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.jobs.audit.rules import Bounds, Tables, check_spans, check_tables
from mainstem.pipeline.jobs.context import Job, JobContext, Summary, poll_while
from mainstem.pipeline.log_reader import read_head

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem.pipeline.jobs.audit.scan import ScanOptions, Span
    from mainstem.pipeline.log_reader import Head

VIOLATIONS_DDL = "rule STRING, committed_id BIGINT, name STRING, detail STRING"


class AuditSummary(Summary, kw_only=True):
    """What was examined, and the faults in it."""

    events: int = 0
    bytes: int = 0
    streams: int = 0
    producers: int = 0
    event_ids: int = 0
    """The number of entries in the index of event ids, including those of pruned events."""
    archived: int = 0
    """The number of archived rows that were compared."""
    found: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of faults per rule; empty if there are none."""
    examples: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The first few faults of each rule: rule, committed_id, name, detail."""


@dataclass(frozen=True)
class AuditOptions:
    archive: str | None = None
    sample: float = 1.0
    """The share of events whose hash is recomputed."""
    skew_s: float = 1.0
    """How far a time may step back, since clocks are corrected now and then."""
    examples: int = limits.AUDIT_EXAMPLES


class Plan(msgspec.Struct, frozen=True):
    """The scope of an audit. A later audit that finds it continues it."""

    url: str
    until: int
    sample: int
    skew_us: int
    log: str | None = None
    """The id of the log, and the epoch of `until`; None in the plan of an older version."""
    epoch: str | None = None


def make_audit(options: AuditOptions) -> Job:
    """Return a job that checks the log."""

    def audit(context: JobContext) -> AuditSummary:
        return _audit(context, options)

    return audit


def _audit(context: JobContext, options: AuditOptions) -> AuditSummary:
    from mainstem.pipeline.jobs.audit.archive_check import ArchiveCheck
    from mainstem.pipeline.jobs.audit.index_copy import copy_index
    from mainstem.pipeline.jobs.audit.scan import ScanOptions
    from mainstem.pipeline.lake.archive_table import open_archive
    from mainstem.pipeline.lake.delta import absolute_location, load_table
    from mainstem.pipeline.lake.log_identity import check_identity

    head = context.identify_head()
    if options.archive is not None:
        load_table(absolute_location(options.archive))  # raises now, not only after the whole log was read
        check_identity(open_archive(options.archive), head)
    folder = context.checkpoint / "findings"
    plan = _resume(folder, _make_plan(context.server.url, head, head.head, options), head)
    scan = ScanOptions(context.server, folder.resolve(), plan.sample, plan.skew_us)
    done = AuditSummary(job="audit", committed_id=plan.until)
    spans, done.event_ids = _scan_log(context, scan, plan.until)
    done.rows = sum(span.rows for span in spans)
    done.events = sum(span.events for span in spans)
    done.bytes = sum(span.bytes for span in spans)
    context.progress.show(rows=done.rows, committed_id=plan.until, head=plan.until, phase="comparing")
    # Copy producers before streams, so that a stream that has not changed has no newer producers.
    done.producers = copy_index(scan, "producers")
    done.streams = copy_index(scan, "streams")
    with context.open_client() as client:
        bounds = Bounds(plan.until, read_head(client).pruned, plan.sample)
    tables = Tables(context.spark, folder)
    violations = list(check_tables(tables, bounds))
    few = check_spans(spans, plan.skew_us)
    if options.archive is not None:
        archive = ArchiveCheck(context, options.archive, plan.until)
        done.archived = archive.count()
        few += archive.check_files()
        found = archive.check(tables, bounds)
        violations += [] if found is None else [found]
    if few:
        violations.append(context.spark.createDataFrame(few, VIOLATIONS_DDL))
    if violations:
        _report(done, reduce(lambda one, other: one.unionByName(other), violations), options.examples)
    shutil.rmtree(folder)
    return done


def _make_plan(url: str, head: Head, until: int, options: AuditOptions) -> Plan:
    from mainstem.pipeline.jobs.audit.scan import SAMPLE_OF

    end = head.locate(until)
    return Plan(url, until, round(options.sample * SAMPLE_OF), round(options.skew_s * 1e6), end.log, end.epoch)


def _resume(folder: Path, plan: Plan, head: Head) -> Plan:
    """Return the plan of an interrupted audit of the same log with the same options, or else start with this plan."""
    path = folder / "plan.json"
    if path.exists():
        before = msgspec.json.decode(path.read_bytes(), type=Plan)
        wanted = msgspec.structs.replace(plan, until=before.until, epoch=head.locate(before.until).epoch)
        if before == wanted and before.until <= plan.until:
            return before
    shutil.rmtree(folder, ignore_errors=True)
    replace_file(path, msgspec.json.encode(plan))
    return plan


# Tasks


@dataclass(frozen=True)
class Task:
    """A range of the log to scan, or an index to copy."""

    after: int = 0
    until: int = 0
    index: str | None = None


def _scan_log(context: JobContext, scan: ScanOptions, until: int) -> tuple[list[Span], int]:
    """Scan the whole log, and meanwhile copy the index of event ids, whose entries never change."""
    from mainstem.pipeline.jobs.audit.scan import Span

    ends = [*range(0, until, limits.AUDIT_TASK_IDS), until]
    ranges = [Task(after, last) for after, last in itertools.pairwise(ends)]
    with _show_progress(context, scan.folder / "spans", until):
        ids, *_ = _run_tasks(context, scan, [Task(index="events"), *ranges])
    files = sorted((scan.folder / "spans").glob("*.json"))
    if len(files) < len(ranges):
        raise StageLost(
            f"{len(ranges) - len(files)} of {len(ranges)} findings of the executors are not in {scan.folder}"
        )
    return [msgspec.json.decode(file.read_bytes(), type=Span) for file in files], ids


def _run_tasks(context: JobContext, scan: ScanOptions, tasks: list[Task]) -> list[int]:
    """Run the tasks on Spark, and return the number of rows that each has read."""
    count = len(tasks)

    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from mainstem.pipeline.spark.workers import settle_worker

        for batch in numbers:
            done = [(number, _run_task(scan, tasks[number])) for number in batch.column(0).to_pylist()]
            columns = [pa.array(column, pa.int64()) for column in zip(*done, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, ["number", "rows"])
        settle_worker()

    counts = context.spark.range(0, count, 1, count).mapInArrow(work, "number BIGINT, rows BIGINT").collect()
    return [int(row["rows"]) for row in sorted(counts, key=lambda row: int(row["number"]))]


def _run_task(scan: ScanOptions, task: Task) -> int:
    from mainstem.pipeline.jobs.audit.index_copy import copy_index
    from mainstem.pipeline.jobs.audit.scan import scan_range

    if task.index is not None:
        return copy_index(scan, task.index)
    return scan_range(scan, task.after, task.until).rows


@contextmanager
def _show_progress(context: JobContext, spans: Path, until: int) -> Iterator[None]:
    """Show how many ranges are done while the others are read."""
    rows = reached = 0
    seen: set[str] = set()

    def update() -> None:
        nonlocal rows, reached
        for file in spans.glob("*.json"):
            if file.name not in seen:
                seen.add(file.name)
                found = msgspec.json.decode(file.read_bytes())
                rows += found["rows"]
                reached += found["until"] - found["after"]
        context.progress.show(rows=rows, committed_id=reached, head=until, phase="reading")

    with poll_while(update):
        yield


# Report


def _report(done: AuditSummary, violations: DataFrame, examples: int) -> None:
    """Fill in the counts and the first few violations of each rule. The driver collects nothing else."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_rule = Window.partitionBy("rule")
    shown = (
        violations.withColumn("count", f.count("*").over(of_rule))
        .withColumn("nth", f.row_number().over(of_rule.orderBy("committed_id", "detail")))
        .where(f.col("nth") <= max(examples, 1))
        .orderBy("rule", "nth")
        .collect()
    )
    done.found = {row["rule"]: int(row["count"]) for row in shown}
    done.faults = sum(done.found.values())
    names = ("rule", "committed_id", "name", "detail")
    done.examples = [{name: row[name] for name in names} for row in shown if row["nth"] <= examples]
