"""`mainstem check`: look for faults in a store."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli import options, output, progress
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.stores import find_store, require_file

if TYPE_CHECKING:
    from mainstem.log.store.snapshot import StoreSnapshot


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@options.store
@options.common
def check(file: Path | None, data: str | None, store: str | None, config: str | None, as_json: bool) -> None:
    """Check the store, or a backup FILE, for faults.

    The exit code is 1 if there are any. The command reads the whole store; a server may use it meanwhile.
    """
    from mainstem.checks.rules import check_store
    from mainstem.log.store.postgres.urls import strip_password

    where = file if file is not None else find_store(data, store, config)
    with (
        open_snapshot(where) as snapshot,
        progress.bar("Checking", bytes_=False, shown=progress.is_visible(as_json)) as advance,
    ):
        report = check_store(snapshot, lambda name, number, total: advance(number - 1, total))
    found = {
        "store": strip_password(where) if isinstance(where, str) else str(where),
        "ok": not report.findings,
        **report.figures._asdict(),
        "faults": [finding._asdict() for finding in report.findings],
        "more_faults": report.more,
    }
    if as_json:
        output.write_json(found)
    else:
        write_report(found)
    if report.findings:
        raise click.exceptions.Exit(ExitCode.FAILED)


def open_snapshot(where: Path | str) -> "AbstractContextManager[StoreSnapshot]":
    """Open a snapshot of the SQLite store at a path, or of the PostgreSQL store at a URL."""
    if isinstance(where, Path):
        from mainstem.log.store.sqlite import snapshot as sqlite

        return sqlite.open_snapshot(require_file(where))
    try:
        from mainstem.log.store.postgres import snapshot as postgres
    except ImportError:
        raise Failure(
            "the driver for PostgreSQL is not installed: run `pip install 'mainstem[postgres]'`", ExitCode.USAGE
        ) from None
    return postgres.open_snapshot(where)


def write_report(found: dict[str, Any]) -> None:
    for fault in found["faults"]:
        output.write_line(f"{fault['rule']}: {fault['detail']}")
    held = f"{found['records']:,} records, {found['states']:,} states, head {found['head']}"
    number = len(found["faults"])
    faults = f"{number:,} fault{'s' if number > 1 else ''}"
    result = f"{'more than ' if found['more_faults'] else ''}{faults}" if number else "no faults"
    output.write_line(f"{found['store']}: {result} ({held})")
