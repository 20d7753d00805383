"""The options of archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mainstem import limits
from mainstem.pipeline.jobs.specs.options import JobSpec, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class ArchiveSpec(JobSpec, frozen=True, kw_only=True):
    table: Annotated[str, option("The Delta table.", argument=True, location=True)]
    compact: Annotated[bool, option("Merge small files into larger ones.")] = True
    vacuum: Annotated[
        int | None,
        option("Delete files that the table has not used for this many hours; 168 is a week.", "HOURS", least=1),
    ] = None
    as_of: Annotated[
        int | None, option("Archive exactly up to this committed id.  [default: the head of the log]", "ID", least=0)
    ] = None
    accept_loss: Annotated[bool, option("Continue even if the log was pruned before it was archived.")] = False
    commit_rows: Annotated[
        int,
        option(
            "Rows per commit: they become visible together, and a killed job repeats at most these.", "ROWS", least=1
        ),
    ] = limits.COPY_ROWS

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.archive import ArchiveOptions, make_archive

        options = ArchiveOptions(self.compact, self.vacuum, self.accept_loss, self.commit_rows, self.as_of)
        return make_archive(self.table, options)
