"""`mainstem pipeline rollup`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.rollup import RollupSpec


@click.command()
@spec_options(RollupSpec)
@job_options()
def rollup(spec: RollupSpec, runner: Runner) -> None:
    """Count messages and bytes per time window, and append each count to a stream exactly once.

    The job writes a window once the log, or in a quiet log the server's clock, has passed its end by --lateness. Run
    the same command again to continue.
    """
    runner.run(spec.make_job())
