"""import: writes files into streams or partitions, each row exactly once, one group of files at a time.

The job first stores a plan: which files, in which order and in which groups. A group is one Spark write by a producer
whose id is derived from the contents of the group. If the job is killed during a group, the next round writes the group
again, and the server recognises what it has already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.options import parse_write_options
from mainstem.pipeline.datasource.staging_directory import StagingDirectory
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.lake.import_source import (
    ImportSource,
    SourceFile,
    check_files,
    infer_schema,
    list_files,
    read_file,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_CONF = {
    "spark.sql.files.maxPartitionBytes": str(limits.IMPORT_SPLIT_BYTES),
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""Settings that decide how rows are split into requests. They are fixed, so that a repeated request is identical."""


LINE_COLUMNS = ("streamColumn", "idColumn", "partitionColumn")
"""Options of the writer that name a field of a JSON line."""


class ImportSummary(Summary, kw_only=True):
    """What a round has imported."""

    source: str
    target: str
    files: int = 0
    bytes: int = 0
    dry_run: bool = False


class ImportRequest(msgspec.Struct, frozen=True):
    """Identifies an import. Its hash names the import's directory in the checkpoint."""

    source: ImportSource
    target: dict[str, str]
    """Options of the sink."""
    name: str = ""
    url: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The files of an import in groups. It is stored in the checkpoint."""

    request: ImportRequest = msgspec.field(name="asked")
    schema: str | None
    groups: list[list[SourceFile]]
    done: int = 0
    """How many groups have been written."""


def make_import(
    source: ImportSource, target: Mapping[str, str], *, name: str = "", group_files: int | None = None
) -> Job:
    """Return a job that imports `source`. `target` has options of the writer of `format("mainstem")`."""
    _check_target(source, target)
    most = group_files or limits.IMPORT_GROUP_FILES
    return partial(_import, source=source, target=dict(target), name=name, group_files=most)


def _check_target(source: ImportSource, target: Mapping[str, str]) -> None:
    """Raise `BadOption`, before Spark starts, for options that the writer would refuse."""
    parse_write_options({"url": "http://localhost", **target}, streaming=False)
    for option in LINE_COLUMNS:
        name = target.get(option, "")
        if source.format == "ndjson" and (not name.isprintable() or "'" in name):
            raise BadOption(f"{option}: {name!r} cannot be looked up in JSON lines")


def _import(
    context: JobContext, source: ImportSource, target: dict[str, str], name: str, group_files: int
) -> ImportSummary:
    request = ImportRequest(source, target, name, context.server.url)
    plan_file = PlanFile(context.checkpoint, request)
    plan = _extend_plan(context, plan_file.read(), request, group_files)
    where = " ".join(f"{option}={value}" for option, value in target.items())
    done = ImportSummary(job="import", source=source.location, target=where, dry_run=context.dry_run)
    done.committed_id = context.read_head()
    left = plan.groups[plan.done :]
    if context.dry_run:
        for group in left:
            check_files(source, plan.schema, group)
            _count(done, group, _read(context, plan, group).count())
        return done
    plan_file.write(plan)
    for number, group in enumerate(left, plan.done + 1):
        phase = f"{number} of {len(plan.groups)}"
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=done.committed_id, phase=phase)
        check_files(source, plan.schema, group)
        producer = _make_producer_id(context, request, group)
        with _fixed_splits(context.spark):
            _count(done, group, _write(context, plan_file, plan, group, producer))
        plan = msgspec.structs.replace(plan, done=number)
        plan_file.write(plan)
        # Not earlier: a repeated write looks in this directory for what it has sent.
        StagingDirectory(str(plan_file.folder), producer).discard_all()
        done.committed_id = context.read_head()
    return done


def _count(done: ImportSummary, group: list[SourceFile], rows: int) -> None:
    done.rows += rows
    done.files += len(group)
    done.bytes += sum(file.size for file in group)


def _extend_plan(context: JobContext, plan: Plan | None, request: ImportRequest, group_files: int) -> Plan:
    """Return the plan with the files that are new since it was made."""
    source = request.source
    if plan is not None and source.format == "delta":
        return plan  # it is for one version of the table
    known = {file.path: file.size for group in plan.groups for file in group} if plan is not None else {}
    found = list_files(source)
    for file in found:
        if known.get(file.path, file.size) != file.size:
            raise BadOption(f"{file.path} has changed since it was planned: put new rows into a new file")
    new = [file for file in found if file.path not in known]
    if plan is not None:
        return msgspec.structs.replace(plan, groups=[*plan.groups, *_group(new, group_files)])
    schema = infer_schema(context.spark, source, new) if new else None
    return Plan(request, schema, _group(new, group_files))


def _group(files: list[SourceFile], files_max: int) -> list[list[SourceFile]]:
    groups: list[list[SourceFile]] = []
    size = 0
    for file in files:
        if not groups or len(groups[-1]) >= files_max or size + file.size > limits.IMPORT_GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _read(context: JobContext, plan: Plan, group: list[SourceFile]) -> DataFrame:
    """Return the rows of the files, one file after the other."""
    source = plan.request.source
    rows = reduce(
        lambda before, after: before.unionAll(after),
        (read_file(context.spark, source, plan.schema, file) for file in group),
    )
    return _extract_columns(rows, plan.request.target) if source.format == "ndjson" else rows


@contextmanager
def _fixed_splits(spark: SparkSession) -> Iterator[None]:
    """Set `SPLIT_CONF` during the block only, since other code may share the session."""
    before = {name: spark.conf.get(name, None) for name in SPLIT_CONF}
    for name, value in SPLIT_CONF.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)


def _extract_columns(lines: DataFrame, target: Mapping[str, str]) -> DataFrame:
    """Return the lines unchanged, with the columns that the writer needs."""
    from pyspark.sql import functions as f

    columns = [f.col("value").cast("binary").alias("value")]
    for option in LINE_COLUMNS:
        name = target.get(option)
        if name is None:
            continue
        found = f.get_json_object("value", f"$['{name}']")
        if option == "partitionColumn":
            several = f.from_json(found, "array<string>")
            found = f.when(found.startswith("["), several).otherwise(f.array(found))
        columns.append(found.alias(name))
    return lines.select(*columns)


def _write(context: JobContext, plan_file: PlanFile, plan: Plan, group: list[SourceFile], producer: str) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    target = plan.request.target
    if plan.request.source.format == "ndjson":
        target = {"valueColumn": "value", **target}
    seen = Observation()
    rows = _read(context, plan, group).observe(seen, f.count(f.lit(1)).alias("rows"))
    options = {**context.options, **target, "producerId": producer, "stagingLocation": str(plan_file.folder)}
    rows.write.format("mainstem").mode("append").options(**options).save()
    return int(seen.get["rows"])


def _make_producer_id(context: JobContext, request: ImportRequest, group: list[SourceFile]) -> str:
    """Derive the id from what is written and how it is split, so that the same id means the same requests."""
    facts = [msgspec.to_builtins(request), msgspec.to_builtins(group), SPLIT_CONF, context.spark.version]
    return f"import-{hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]}"


class PlanFile:
    """The file with the plan of an import, in a separate directory below the checkpoint."""

    def __init__(self, checkpoint: Path, request: ImportRequest) -> None:
        name = hashlib.sha256(msgspec.json.encode(request)).hexdigest()[:16]
        self.folder = checkpoint.absolute() / name
        self._path = self.folder / "plan.json"

    def read(self) -> Plan | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Plan)
        except FileNotFoundError:
            return None

    def write(self, plan: Plan) -> None:
        replace_file(self._path, msgspec.json.encode(plan))
