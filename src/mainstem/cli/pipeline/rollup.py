"""`mainstem pipeline rollup`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.errors import BadOption


@click.command()
@click.option("--into", required=True, metavar="STREAM", help="Where the counts go; the stream is made if need be.")
@click.option("--window", default="1m", metavar="LENGTH", show_default=True, help="How long a window is: 30s, 1m, 2h.")
@click.option(
    "--late",
    default="10s",
    metavar="LENGTH",
    show_default=True,
    help="How long a window waits for rows that come late.",
)
@click.option(
    "--by", default="stream", metavar="LIST", show_default=True, help="Any of stream, partition, client, type."
)
@click.option("--time", metavar="FIELD", help="Take the time from this JSON field.  [default: when it was committed]")
@click.option(
    "--type", "type_", default="type", metavar="FIELD", show_default=True, help="The JSON field for --by type."
)
@click.option("--streams", metavar="LIST", help="Only these streams: paths, or globs.")
@click.option("--partitions", metavar="LIST", help="Only events of these partitions.")
@click.option(
    "--accept-loss", is_flag=True, help="Go on with what is left if the log was pruned before it was counted."
)
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
    """Count messages and bytes by time window, and write each count once into a stream.

    A window is written when the log has passed its end by --late; run the same command again to go on.
    """
    from mainstem.pipeline.jobs.rollup import RollupOptions, make_rollup

    names = tuple(name.strip() for name in by.split(",") if name.strip())
    try:
        options = RollupOptions(into, window, late, names, time, type_, streams, partitions)
        job = make_rollup(options, accept_loss=accept_loss)
    except BadOption as error:
        raise click.UsageError(error.detail) from None
    runner.run(job)
