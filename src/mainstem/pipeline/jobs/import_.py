"""import: writes files into streams or partitions, each row exactly once, one group of files at a time.

The job first stores a plan: which files, in which order and in which groups. A group is one Spark write by a producer
whose id is derived from the contents of the group. If the job is killed during a group, the next round writes the group
again, and the server recognises what it has already. A few small files are written without Spark, in the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.datasource.options import parse_write_options
from mainstem.pipeline.datasource.staging_directory import StagingDirectory
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.engines import Engine, EngineChoice, EngineName
from mainstem.pipeline.jobs.import_plan import ImportRequest, Plan, PlanFile
from mainstem.pipeline.jobs.import_write import LINE_COLUMNS, ImportWrite
from mainstem.pipeline.lake import local_files
from mainstem.pipeline.lake.import_source import ImportSource, SourceFile, check_files, infer_schema, list_files
from mainstem.pipeline.log_reader import check_position


class ImportSummary(Summary, kw_only=True):
    """What a round has imported."""

    source: str
    target: str
    engine: EngineName = "local"
    """What has read the files; a round without files needs no Spark."""
    files: int = 0
    bytes: int = 0
    dry_run: bool = False


def make_import(
    source: ImportSource,
    target: Mapping[str, str],
    *,
    name: str = "",
    group_files: int | None = None,
    engine: Engine = "auto",
    staging: str | None = None,
) -> Job:
    """Return a job that imports `source`. `target` has options of the writer of `format("mainstem")`.

    Rows are staged in the checkpoint, or at `staging` if the executors do not share a disk with the driver.
    """
    _check_target(source, target)
    if staging is not None:
        open_location(staging)  # raises, before Spark starts, if it cannot be opened
    most = group_files or limits.IMPORT_GROUP_FILES
    return partial(
        _import,
        source=source,
        target=dict(target),
        name=name,
        group_files=most,
        engine=engine,
        staging=staging,
    )


def _check_target(source: ImportSource, target: Mapping[str, str]) -> None:
    """Raise `BadOption`, before Spark starts, for options that the writer would refuse."""
    parse_write_options({"url": "http://localhost", **target}, streaming=False)
    for option in LINE_COLUMNS:
        name = target.get(option, "")
        if source.format == "ndjson" and (not name.isprintable() or "'" in name):
            raise BadOption(f"{option}: {name!r} cannot be looked up in JSON lines")


def _import(
    context: JobContext,
    source: ImportSource,
    target: dict[str, str],
    name: str,
    group_files: int,
    engine: Engine,
    staging: str | None,
) -> ImportSummary:
    if parse_write_options(context.options | target, streaming=False).into_events:
        context.check_client_id(target.get("clientId"))
    request = ImportRequest(source, target, name, context.server.url)
    plan_file = PlanFile(context.checkpoint, request)
    stage = str(plan_file.folder) if staging is None else f"{staging.rstrip('/')}/{plan_file.folder.name}"
    chosen = EngineChoice(context, engine)
    before, head = plan_file.read(), context.identify_head()
    if before is not None and before.reached is not None:
        check_position(head, before.reached, f"the import in {plan_file.folder}")
    plan = _extend_plan(chosen, before, request, group_files)
    where = " ".join(f"{option}={value}" for option, value in target.items())
    done = ImportSummary(job="import", source=source.location, target=where, dry_run=context.dry_run)
    done.committed_id = head.head
    left = plan.groups[plan.done :]
    chosen.weigh(file for group in left for file in group)
    if not context.dry_run:
        plan = msgspec.structs.replace(plan, reached=head.locate(head.head))
        plan_file.write(plan)
    for number, group in enumerate(left, plan.done + 1):
        phase = f"{number} of {len(plan.groups)}"
        context.progress.show(rows=done.rows, committed_id=done.committed_id, head=done.committed_id, phase=phase)
        check_files(source, plan.schema, group)
        write = ImportWrite(context, plan, group, stage)
        if context.dry_run:
            _count(done, group, chosen.run(write.count_locally, write.count_in_spark))
            continue
        _count(done, group, chosen.run(write.write_locally, write.write_in_spark))
        head = context.identify_head()
        plan = msgspec.structs.replace(plan, done=number, reached=head.locate(head.head))
        plan_file.write(plan)
        # Not earlier: a repeated write looks in this directory for what it has sent.
        StagingDirectory(stage, write.producer).discard_all()
        done.committed_id = head.head
    done.engine = chosen.name
    return done


def _count(done: ImportSummary, group: list[SourceFile], rows: int) -> None:
    done.rows += rows
    done.files += len(group)
    done.bytes += sum(file.size for file in group)


def _extend_plan(chosen: EngineChoice, plan: Plan | None, request: ImportRequest, group_files: int) -> Plan:
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
    chosen.weigh(new)
    schema, spark_version = None, ""
    if new:
        schema = chosen.run(
            lambda: local_files.infer_schema(source, new), lambda: infer_schema(chosen.context.spark, source, new)
        )
        spark_version = chosen.find_spark_version()
    return Plan(request, schema, _group(new, group_files), spark_version=spark_version)


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
