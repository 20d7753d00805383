"""`mainstem pipeline snapshot`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.errors import BadOption


@click.command()
@click.argument("reducer")
@click.option("--partitions", multiple=True, metavar="GLOB", help="Partitions to fold; can be repeated.")
@click.option("--streams", multiple=True, metavar="GLOB", help="JSON streams to fold; can be repeated.")
@click.option(
    "--key", "keys", multiple=True, metavar="PATH", help="lww: the field that identifies an entry; can be repeated."
)
@click.option("--value", metavar="PATH", help="lww: the part of a message to keep.  [default: all of it]")
@click.option(
    "--tombstone", metavar="PATH", help="lww: a field that removes the key unless it is missing, null or false."
)
@click.option("--partial", is_flag=True, help="Fold what is left of a history that was pruned without a snapshot.")
@job_options(changes=True)
def snapshot(
    reducer: str,
    partitions: tuple[str, ...],
    streams: tuple[str, ...],
    keys: tuple[str, ...],
    value: str | None,
    tombstone: str | None,
    partial: bool,
    runner: Runner,
) -> None:
    """Fold partitions and JSON streams into their states, and store the states as snapshots.

    REDUCER is lww (the newest message per key), state (the State Protocol), tree (tree actions), or
    package.module:function, which is called as function(state, message) and returns the next state.
    """
    from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
    from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
    from mainstem.pipeline.jobs.targets import TargetSelector

    try:
        made = make_reducer(reducer, keys, value, tombstone)
        job = make_snapshot(SnapshotOptions(TargetSelector(partitions, streams), made, partial))
    except BadOption as error:
        raise click.UsageError(error.detail) from None
    runner.run(job)
