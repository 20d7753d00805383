"""The options of audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mainstem import limits
from mainstem.pipeline.jobs.specs.options import JobSpec, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class AuditSpec(JobSpec, frozen=True, kw_only=True):
    archive: Annotated[
        str | None,
        option("Also compare this Delta table of `mainstem pipeline archive` with the log.", "TABLE", location=True),
    ] = None
    sample: Annotated[
        float, option("Check the hashes of only this share of the events, 0 to 1.", "SHARE", least=0, most=1)
    ] = 1.0
    clock_skew: Annotated[float, option("How far the server's clock may have stepped back.", "SECONDS", least=0)] = 1.0
    examples: Annotated[
        int, option("How many faults of each kind to show.", "N", least=0, most=limits.AUDIT_EXAMPLES_MAX)
    ] = limits.AUDIT_EXAMPLES

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit

        return make_audit(AuditOptions(self.archive, self.sample, self.clock_skew, self.examples))
