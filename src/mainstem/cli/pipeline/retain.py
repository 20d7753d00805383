"""`mainstem pipeline retain`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.retain import RetainSpec


@click.command()
@spec_options(RetainSpec)
@job_options(changes=True)
def retain(spec: RetainSpec, runner: Runner) -> None:
    """Prune the history that the policies in the TOML file POLICIES do not keep.

    The server erases an event once every partition of it has pruned it. It remembers the event's id, so that it still
    recognises a late retry. --dry-run shows what would be pruned.
    """
    runner.run(spec.make_job())
