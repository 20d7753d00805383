"""The options of retain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mainstem.pipeline.jobs.specs.options import JobSpec, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class RetainSpec(JobSpec, frozen=True, kw_only=True):
    policies: Annotated[str, option("The TOML file with the policies.", argument=True, location=True)]

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.retain.job import RetainOptions, make_retain
        from mainstem.pipeline.jobs.retain.policies import load_policies

        return make_retain(RetainOptions(load_policies(Path(self.policies))))
