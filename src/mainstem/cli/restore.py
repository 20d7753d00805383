"""`mainstem restore`: restore a backup into a data directory."""

from pathlib import Path

import click

from mainstem.cli import options, output, progress
from mainstem.cli.backup import describe
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.stores import find_store


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.store
@click.option("--force", is_flag=True, help="Replace the store in the directory.")
@options.common
def restore(file: Path, data: str | None, store: str | None, config: str | None, force: bool, as_json: bool) -> None:
    """Verify the backup FILE, and restore it into the data directory.

    No server may be using the directory, and it must be empty unless you pass --force.

    The log keeps its id and begins a new epoch: queries and jobs continue with it, unless they have read more than the
    backup holds.
    """
    from mainstem.checks.rules import check_store
    from mainstem.log.store.sqlite.backup import restore as put_back

    target = find_store(data, store, config)
    if isinstance(target, str):
        raise Failure(
            "mainstem restore is for embedded stores: restore a PostgreSQL store with `pg_restore --dbname=URL FILE`",
            ExitCode.USAGE,
        )
    with progress.bar("Restoring", then="Verifying", shown=progress.is_visible(as_json)) as advance:
        copied = put_back(file, target.parent, check_store, force=force, progress=advance)
    said = f"{target.parent} holds the log up to committed id {copied.figures.head}: start the server there"
    output.write_result(describe(copied), said, as_json)
