"""`mainstem repair`: repair a damaged store, with records from a backup or an archive."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli import options, output
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.stores import find_store, require_file

if TYPE_CHECKING:
    from mainstem.log.records import Record
    from mainstem.log.store.sqlite.repair import RecordSource


@click.command()
@options.store
@click.option(
    "--backup",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Take damaged records from this backup.",
)
@click.option("--archive", metavar="LOCATION", help="Take damaged records from this archive of the log.")
@options.common
def repair(
    data: str | None, store: str | None, config: str | None, backup: Path | None, archive: str | None, as_json: bool
) -> None:
    """Repair a store that `mainstem check` reports as damaged.

    The command writes a new file from everything that can be read, takes damaged records from a backup or an archive,
    checks the new file, and replaces the store with it. It keeps the damaged file. No server may be using the
    directory.
    """
    from mainstem.checks.rules import check_store
    from mainstem.log.store.sqlite import repair as repairing

    target = find_store(data, store, config)
    if isinstance(target, str):
        raise Failure(
            "mainstem repair is for embedded stores: restore a dump of a PostgreSQL store with `pg_restore`",
            ExitCode.USAGE,
        )
    require_file(target)
    repaired = repairing.repair(target.parent, backup, find_sources(archive), check_store, list_tags)
    if repaired is None:
        output.write_result({"store": str(target), "damaged_pages": 0}, f"{target}: no page is damaged", as_json)
        return
    result = {
        "store": str(target),
        "damaged_pages": repaired.pages,
        "records_taken": repaired.records,
        "states_taken": repaired.states,
        **repaired.figures._asdict(),
    }
    said = (
        f"{target} is repaired: {repaired.pages} damaged page{'s' if repaired.pages > 1 else ''}, "
        f"{repaired.records} records and {repaired.states} states taken from copies; the damaged file is kept as "
        f"{repairing.DAMAGED_NAME}"
    )
    output.write_result(result, said, as_json)


def find_sources(archive: str | None) -> "list[RecordSource]":
    if archive is None:
        return []
    from mainstem.pipeline.lake.archived_records import ArchivedRecords

    return [ArchivedRecords(archive)]


def list_tags(record: "Record") -> Sequence[str]:
    """Return the partitions of an event. A record that cannot be decoded has none, and the check reports it."""
    import msgspec

    from mainstem.log.records import Kind
    from mainstem.sync.protocol.messages import stored_partitions

    if record.kind is not Kind.EVENT:
        return ()
    try:
        return stored_partitions(record.data)
    except (msgspec.MsgspecError, ValueError):
        return ()
