"""`mainstem pipeline rollup`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.errors import BadOption


@click.command()
@click.option(
    "--into", required=True, metavar="STREAM", help="The stream for the counts; created if it does not exist."
)
@click.option("--window", default="1m", metavar="LENGTH", show_default=True, help="Length of a window: 30s, 1m, 2h.")
@click.option(
    "--late",
    default="10s",
    metavar="LENGTH",
    show_default=True,
    help="How long a window waits for late rows.",
)
@click.option(
    "--by", default="stream", metavar="LIST", show_default=True, help="Group by any of stream, partition, client, type."
)
@click.option("--time", metavar="FIELD", help="The JSON field with the time.  [default: the commit time]")
@click.option(
    "--type", "type_", default="type", metavar="FIELD", show_default=True, help="The JSON field for --by type."
)
@click.option("--streams", metavar="LIST", help="Only these streams: paths or globs, separated by commas.")
@click.option("--partitions", metavar="LIST", help="Only events of these partitions, separated by commas.")
@click.option("--accept-loss", is_flag=True, help="Continue even if the log was pruned before it was counted.")
@job_options()
def rollup(
    into: str,
    window: str,
    late: str,
    by: str,
    time: str | None,
    type_: str,
    streams: str | None,
    partitions: str | None,
    accept_loss: bool,
    runner: Runner,
) -> None:
    """Count messages and bytes per time window, and append each count to a stream exactly once.

    The job writes a window once the log has passed its end by --late. Run the same command again to continue.
    """
    from mainstem.pipeline.jobs.rollup import RollupOptions, make_rollup

    names = tuple(name.strip() for name in by.split(",") if name.strip())
    try:
        options = RollupOptions(into, window, late, names, time, type_, streams, partitions)
        job = make_rollup(options, accept_loss=accept_loss)
    except BadOption as error:
        raise click.UsageError(error.detail) from None
    runner.run(job)
