"""`mainstem backup`: an online copy of the embedded store."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli import options, output, progress
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.stores import find_store, require_file

if TYPE_CHECKING:
    from mainstem.log.store.sqlite.backup import Copy


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.store
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@options.common
def backup(file: Path, data: str | None, store: str | None, config: str | None, force: bool, as_json: bool) -> None:
    """Copy the embedded store to FILE, verified, while its server runs or while it does not.

    The copy is one consistent moment of the log. FILE appears only when it is whole.
    """
    from mainstem.checks.rules import check_store
    from mainstem.log.store.sqlite.backup import back_up

    source = find_store(data, store, config)
    if isinstance(source, str):
        raise Failure(
            "a PostgreSQL store is copied with PostgreSQL's own tools: `pg_dump --format=custom --file=FILE URL`, and "
            "back with `pg_restore`",
            ExitCode.USAGE,
        )
    with progress.bar("Copying", then="Verifying", shown=progress.is_visible(as_json)) as advance:
        copied = back_up(require_file(source), file, check_store, force=force, progress=advance)
    output.write_result(describe(copied), f"{copied.path} holds the log up to {copied.figures.head}", as_json)


def describe(copied: "Copy") -> dict[str, Any]:
    return {"file": str(copied.path), "bytes": copied.size_bytes, **copied.figures._asdict()}
