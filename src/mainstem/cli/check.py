"""`mainstem check`: whether a store keeps its promises."""

from pathlib import Path
from typing import Any

import click

from mainstem.cli import options, output, progress
from mainstem.cli.faults import ExitCode, Failure
from mainstem.cli.stores import find_store, require_file


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@options.store
@options.common
def check(file: Path | None, data: str | None, store: str | None, config: str | None, as_json: bool) -> None:
    """Look for faults in the store, or in a backup FILE, and end with 1 if there are any.

    A server may run meanwhile. The whole file is read.
    """
    where = file if file is not None else find_store(data, store, config)
    found = check_postgres(where, as_json) if isinstance(where, str) else check_file(require_file(where), as_json)
    if as_json:
        output.write_json(found)
    else:
        _tell(found)
    if found["faults"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def check_file(path: Path, as_json: bool) -> dict[str, Any]:
    from mainstem.cli.invariants import check_everything
    from mainstem.log.store.sqlite.check import snapshot

    with snapshot(path) as db, progress.bar("Checking", bytes_=False, shown=progress.watched(as_json)) as advance:
        report = check_everything(db, lambda name, number, total: advance(number - 1, total))
    return {
        "store": str(path),
        "ok": not report.faults,
        **report.figures._asdict(),
        "faults": [fault._asdict() for fault in report.faults],
        "more_faults": report.more,
    }


def check_postgres(url: str, as_json: bool) -> dict[str, Any]:
    import asyncio
    from importlib import import_module

    from mainstem.log.store.postgres.urls import strip_password

    try:
        find_faults = import_module("mainstem.log.store.postgres.check").check
    except ImportError as error:
        raise Failure(f"{error}: a PostgreSQL store needs `pip install 'mainstem[postgres]'`", ExitCode.USAGE) from None
    try:
        lines: list[str] = asyncio.run(find_faults(url))
    except OSError as error:
        said = f"{strip_password(url)} cannot be reached: {error}"
        raise Failure(f"{said}: look at the URL, and whether PostgreSQL runs there", ExitCode.UNREACHABLE) from None
    return {
        "store": strip_password(url),
        "ok": not lines,
        "faults": [{"rule": "store", "detail": line} for line in lines],
        "more_faults": False,
    }


def _tell(found: dict[str, Any]) -> None:
    for fault in found["faults"]:
        output.write_line(f"{fault['rule']}: {fault['detail']}")
    held = f" ({found['records']} records, {found['states']} states, head {found['head']})" if "head" in found else ""
    number = len(found["faults"])
    result = f"{'more than ' if found['more_faults'] else ''}{number} faults" if number else "no faults"
    output.write_line(f"{found['store']}: {result}{held}")
