"""The options of rollup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mainstem.pipeline.jobs.specs.options import JobSpec, ValueKind, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class RollupSpec(JobSpec, frozen=True, kw_only=True):
    into: Annotated[str, option("The stream for the counts; created if it does not exist.", "STREAM")]
    window: Annotated[str, option("Length of a window: 30s, 1m, 2h.", "LENGTH")] = "1m"
    lateness: Annotated[str, option("How long a window waits for late rows.", "LENGTH")] = "10s"
    by: Annotated[
        tuple[str, ...], option("Group by any of stream, partition, client, type.", "LIST", kind=ValueKind.NAMES)
    ] = ("stream",)
    time: Annotated[str | None, option("The JSON field with the time.  [default: the commit time]", "FIELD")] = None
    type: Annotated[str, option("The JSON field for --by type.", "FIELD")] = "type"
    streams: Annotated[
        tuple[str, ...],
        option("Only these streams: paths or globs, separated by commas.", "LIST", kind=ValueKind.NAMES),
    ] = ()
    partitions: Annotated[
        tuple[str, ...],
        option("Only events of these partitions, separated by commas.", "LIST", kind=ValueKind.NAMES),
    ] = ()
    accept_loss: Annotated[bool, option("Continue even if the log was pruned before it was counted.")] = False

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.rollup import RollupOptions, make_rollup

        options = RollupOptions(
            into=self.into,
            window=self.window,
            late=self.lateness,
            by=self.by,
            time=self.time,
            type=self.type,
            streams=",".join(self.streams) or None,
            partitions=",".join(self.partitions) or None,
        )
        return make_rollup(options, accept_loss=self.accept_loss)
