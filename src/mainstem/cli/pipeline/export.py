"""`mainstem pipeline export`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.export import ExportSpec


@click.command()
@spec_options(ExportSpec)
@job_options(changes=True)
def export(spec: ExportSpec, runner: Runner) -> None:
    """Write rows of the log into the directory OUTPUT, each exactly once.

    Files appear complete, and their names contain their first and last committed ids. _SUCCESS marks a complete export.
    Run the same command again to continue after a kill, or to add what was committed since.
    """
    runner.run(spec.make_job())
