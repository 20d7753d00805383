"""`mainstem pipeline export`."""

from datetime import UTC, datetime, timedelta

import click

from mainstem import limits
from mainstem.cli.pipeline.runner import Runner, job_options

FORMATS = ("parquet", "delta", "ndjson", "csv")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Time(click.ParamType[int]):
    """A time as microseconds since 1970; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time like 2026-01-31 or 2026-01-31T12:00:00Z", parameter, context)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (found - EPOCH) // timedelta(microseconds=1)


@click.command()
@click.argument("output")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--stream", "streams", multiple=True, metavar="GLOB", help="Only these streams; may be repeated.")
@click.option("--partition", "partitions", multiple=True, metavar="NAME", help="Only events of these; may be repeated.")
@click.option("--kind", type=click.Choice(["stream", "event"]), help="Only messages of streams, or only events.")
@click.option("--from-id", type=click.IntRange(min=1), default=1, help="From this committed id on.  [default: 1]")
@click.option("--to-id", type=click.IntRange(min=1), help="Up to and with this one.  [default: the end]")
@click.option("--since", type=Time(), help="Committed at this time or later.")
@click.option("--before", type=Time(), help="Committed before this time.")
@click.option("--columns", metavar="NAMES", default="", help="Only these columns, with commas between them.")
@click.option("--schema", metavar="DDL", help='Typed columns out of JSON messages: "n INT, shop STRING".')
@click.option("--messages", is_flag=True, help="Only the messages, one a line, as they were sent; with ndjson.")
@click.option(
    "--commit-rows",
    type=click.IntRange(min=1),
    default=limits.COPY_ROWS,
    show_default=True,
    metavar="ROWS",
    help="Rows of the log that are looked at in one step, which a kill may cost.",
)
@click.option(
    "--accept-loss", is_flag=True, help="Go on with what is left if the log was pruned before it was exported."
)
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

    Files appear whole, and are named by the committed ids in them; _SUCCESS is there when all are. Run the same command
    again to go on, after a kill or with what was committed since.
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
