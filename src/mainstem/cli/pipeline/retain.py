"""`mainstem pipeline retain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli.output import write_rows
from mainstem.cli.pipeline.runner import Runner, job_options

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import JobContext, Summary


@click.command()
@click.argument("policies", type=click.Path(dir_okay=False, path_type=Path))
@job_options(changes=True)
def retain(policies: Path, runner: Runner) -> None:
    """Give up history that the policies of the TOML file POLICIES do not keep.

    An event goes when every one of its partitions has given it up. Its id stays known, so that a late retry is still
    recognised. --dry-run shows what would go.
    """
    from mainstem.pipeline.jobs.retain.job import RetainOptions, RetainSummary, make_retain
    from mainstem.pipeline.jobs.retain.policies import load_policies

    job = make_retain(RetainOptions(load_policies(policies)))
    shown: list[dict[str, Any]] = []

    def job_for_people(context: "JobContext") -> "Summary":
        summary = job(context)
        assert isinstance(summary, RetainSummary)
        shown[:], summary.targets = summary.targets, []
        return summary

    runner.run(job if runner.as_json else job_for_people)
    if shown:
        write_rows([list(shown[0]), *(list(target.values()) for target in shown)])
