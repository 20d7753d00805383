"""The options of export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mainstem import limits
from mainstem.pipeline.jobs.specs.options import JobSpec, ValueKind, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class ExportSpec(JobSpec, frozen=True, kw_only=True):
    output: Annotated[str, option("A directory for this export alone.", argument=True, location=True)]
    format: Annotated[Literal["parquet", "delta", "ndjson", "csv"], option("The format of the files.")] = "parquet"
    stream: Annotated[tuple[str, ...], option("Only these streams; can be repeated.", "GLOB")] = ()
    partition: Annotated[tuple[str, ...], option("Only events of this partition; can be repeated.", "NAME")] = ()
    kind: Annotated[Literal["stream", "event"] | None, option("Only stream messages, or only events.")] = None
    from_id: Annotated[int, option("The first committed id.", "ID", least=1)] = 1
    to_id: Annotated[int | None, option("The last committed id.  [default: the head of the log]", "ID", least=1)] = None
    since: Annotated[int | None, option("Committed at this time or later.", kind=ValueKind.TIME)] = None
    before: Annotated[int | None, option("Committed before this time.", kind=ValueKind.TIME)] = None
    columns: Annotated[
        tuple[str, ...], option("Only these columns, separated by commas.", "NAMES", kind=ValueKind.NAMES)
    ] = ()
    schema: Annotated[str | None, option('Extract typed columns from JSON messages: "n INT, shop STRING".', "DDL")] = (
        None
    )
    messages: Annotated[bool, option("Only the messages as they were sent, one per line; for ndjson.")] = False
    commit_rows: Annotated[
        int, option("Rows of the log per step; a killed job repeats at most these.", "ROWS", least=1)
    ] = limits.COPY_ROWS
    engine: Annotated[
        Literal["auto", "spark", "local"], option("auto does up to 64 MiB without Spark, in this process.")
    ] = "auto"
    accept_loss: Annotated[bool, option("Continue even if the log was pruned before it was exported.")] = False

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.export import ExportOptions, make_export
        from mainstem.pipeline.log_reader import Selection

        selection = Selection(
            streams=self.stream, partitions=self.partition, kind=self.kind, since_us=self.since, before_us=self.before
        )
        options = ExportOptions(
            self.format,
            selection,
            self.from_id,
            self.to_id,
            self.columns,
            self.schema,
            self.messages,
            self.commit_rows,
            self.accept_loss,
            self.engine,
        )
        return make_export(self.output, options)
