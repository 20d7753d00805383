"""`mainstem pipeline export`."""

import click

from mainstem import limits
from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.times import TIME

FORMATS = ("parquet", "delta", "ndjson", "csv")


@click.command()
@click.argument("output")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="The format of the files.",
)
@click.option("--stream", "streams", multiple=True, metavar="GLOB", help="Only these streams; can be repeated.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="NAME", help="Only events of this partition; can be repeated."
)
@click.option("--kind", type=click.Choice(["stream", "event"]), help="Only stream messages, or only events.")
@click.option(
    "--from-id", type=click.IntRange(min=1), default=1, metavar="ID", help="The first committed id.  [default: 1]"
)
@click.option(
    "--to-id", type=click.IntRange(min=1), metavar="ID", help="The last committed id.  [default: the head of the log]"
)
@click.option("--since", type=TIME, help="Committed at this time or later.")
@click.option("--before", type=TIME, help="Committed before this time.")
@click.option("--columns", metavar="NAMES", default="", help="Only these columns, separated by commas.")
@click.option("--schema", metavar="DDL", help='Extract typed columns from JSON messages: "n INT, shop STRING".')
@click.option("--messages", is_flag=True, help="Only the messages as they were sent, one per line; for ndjson.")
@click.option(
    "--commit-rows",
    type=click.IntRange(min=1),
    default=limits.COPY_ROWS,
    show_default=True,
    metavar="ROWS",
    help="Rows of the log per step; a killed job repeats at most these.",
)
@click.option("--accept-loss", is_flag=True, help="Continue even if the log was pruned before it was exported.")
@job_options(changes=True)
def export(
    output: str,
    format_: str,
    streams: tuple[str, ...],
    partitions: tuple[str, ...],
    kind: str | None,
    from_id: int,
    to_id: int | None,
    since: int | None,
    before: int | None,
    columns: str,
    schema: str | None,
    messages: bool,
    commit_rows: int,
    accept_loss: bool,
    runner: Runner,
) -> None:
    """Write rows of the log into the directory OUTPUT, each exactly once.

    Files appear complete, and their names contain their first and last committed ids. _SUCCESS marks a complete export.
    Run the same command again to continue after a kill, or to add what was committed since.
    """
    from mainstem.pipeline.jobs.export import ExportOptions, make_export
    from mainstem.pipeline.log_reader import Selection

    options = ExportOptions(
        format_,  # type: ignore[arg-type]  # click has checked it
        Selection(streams=streams, partitions=partitions, kind=kind, since_us=since, before_us=before),
        from_id,
        to_id,
        tuple(name.strip() for name in columns.split(",") if name.strip()),
        schema,
        messages,
        commit_rows,
        accept_loss,
    )
    runner.run(make_export(output, options))
