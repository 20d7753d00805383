"""`mainstem pipeline archive`."""

import click

from mainstem import limits
from mainstem.cli.pipeline.runner import Runner, job_options


@click.command()
@click.argument("table")
@click.option("--compact/--no-compact", default=True, help="Merge small files into larger ones.  [default: compact]")
@click.option(
    "--vacuum",
    "vacuum_hours",
    type=click.IntRange(min=1),
    metavar="HOURS",
    help="Delete files that the table has not used for this many hours; 168 is a week.",
)
@click.option("--accept-loss", is_flag=True, help="Continue even if the log was pruned before it was archived.")
@click.option(
    "--commit-rows",
    type=click.IntRange(min=1),
    metavar="ROWS",
    default=limits.COPY_ROWS,
    show_default=True,
    help="Rows per commit: they become visible together, and a killed job repeats at most these.",
)
@job_options(changes=True)
def archive(
    table: str, compact: bool, vacuum_hours: int | None, accept_loss: bool, commit_rows: int, runner: Runner
) -> None:
    """Copy the log into the Delta TABLE, each row exactly once.

    TABLE is a directory, or a URI that Spark's workers and this machine can both reach. The table records how far it
    has come, so run the same command again to continue.
    """
    from mainstem.pipeline.jobs.archive import ArchiveOptions, make_archive

    options = ArchiveOptions(compact, vacuum_hours, accept_loss, commit_rows)
    runner.run(make_archive(table, options))
