"""`mainstem backup`: copy the embedded store while its server runs."""

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
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@options.common
def backup(file: Path, data: str | None, store: str | None, config: str | None, force: bool, as_json: bool) -> None:
    """Copy the embedded store to FILE, and verify the copy.

    The server may be running. The copy is consistent: it holds the log as of one moment. FILE appears only when it is
    complete.
    """
    from mainstem.checks.rules import check_store
    from mainstem.log.store.sqlite.backup import back_up

    source = find_store(data, store, config)
    if isinstance(source, str):
        raise Failure(
            "mainstem backup copies only embedded stores: copy a PostgreSQL store with `pg_dump --format=custom "
            "--file=FILE URL`, and restore it with `pg_restore`",
            ExitCode.USAGE,
        )
    with progress.bar("Copying", then="Verifying", shown=progress.is_visible(as_json)) as advance:
        copied = back_up(require_file(source), file, check_store, force=force, progress=advance)
    size = output.format_bytes(copied.size_bytes)
    said = f"{copied.path} holds the log up to committed id {copied.figures.head} ({size})"
    output.write_result(describe(copied), said, as_json)


def describe(copied: "Copy") -> dict[str, Any]:
    identity = {}
    if copied.identity is not None:
        identity = {"log": copied.identity.id, "epoch": copied.identity.epoch.name}
    return {"file": str(copied.path), "bytes": copied.size_bytes, **copied.figures._asdict(), **identity}
