"""The options of snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mainstem.pipeline.jobs.specs.options import JobSpec, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class SnapshotSpec(JobSpec, frozen=True, kw_only=True):
    reducer: Annotated[str, option("lww, state, tree, or package.module:function.", argument=True)]
    partitions: Annotated[tuple[str, ...], option("Partitions to fold; can be repeated.", "GLOB")] = ()
    streams: Annotated[tuple[str, ...], option("JSON streams to fold; can be repeated.", "GLOB")] = ()
    key: Annotated[tuple[str, ...], option("lww: the field that identifies an entry; can be repeated.", "PATH")] = ()
    value: Annotated[str | None, option("lww: the part of a message to keep.  [default: all of it]", "PATH")] = None
    tombstone: Annotated[
        str | None, option("lww: a field that removes the key unless it is missing, null or false.", "PATH")
    ] = None
    partial: Annotated[bool, option("Fold what is left of a history that was pruned without a snapshot.")] = False

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
        from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
        from mainstem.pipeline.jobs.targets import TargetSelector

        reducer = make_reducer(self.reducer, self.key, self.value, self.tombstone)
        return make_snapshot(SnapshotOptions(TargetSelector(self.partitions, self.streams), reducer, self.partial))
