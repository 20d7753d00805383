"""`mainstem pipeline snapshot`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.snapshot import SnapshotSpec


@click.command()
@spec_options(SnapshotSpec)
@job_options(changes=True)
def snapshot(spec: SnapshotSpec, runner: Runner) -> None:
    """Fold partitions and JSON streams into their states, and store the states as snapshots.

    REDUCER is lww (the newest message per key), state (the State Protocol), tree (tree actions), or
    package.module:function, which is called as function(state, message) and returns the next state.
    """
    runner.run(spec.make_job())
