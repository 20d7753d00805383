"""Repair a damaged store: write its readable data to a new file, and take damaged records back from other copies.

Records never change, so a copy of one is as good as the original. States do change: a backup that is older than the
store cannot replace them. The indexes follow from the records and are built again. The new file replaces the old one
only if it passes the whole check.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import apsw
import msgspec

from mainstem import limits
from mainstem.errors import RepairFailed
from mainstem.log.records import CommittedId, Kind, Record
from mainstem.log.store.snapshot import Figures
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.backup import Verify, move_into_place, partial_file
from mainstem.log.store.sqlite.connections import STORE_NAME, DirectoryLock, open_writer
from mainstem.log.store.sqlite.database import insert_batches
from mainstem.log.store.sqlite.errors import is_damage
from mainstem.log.store.sqlite.journal import remove_journal
from mainstem.log.store.sqlite.schema import migrate
from mainstem.log.store.sqlite.snapshot import SqliteSnapshot, open_snapshot

DAMAGED_NAME = STORE_NAME + ".damaged"
replace = msgspec.structs.replace
StateKey = tuple[int, str]
StateRow = tuple[int, str, int | None, bytes]
FIRST_KEY: StateKey = (-1, "")
ListTags = Callable[[Record], Sequence[str]]
"""Returns the tags of a record, which follow from its data."""


class Gap(NamedTuple):
    """Committed ids whose records cannot be read, from the first to the last."""

    first: int
    last: int


class RecordSource(Protocol):
    """Where damaged records can be taken from."""

    def note(self, record: Record) -> None:
        """Learn from a record of the repaired log. This is called for each one, in order."""

    def find_records(self, first: int, last: int) -> Iterator[Record]:
        """Yield the records that it has with these ids, in order."""


class Repaired(NamedTuple):
    pages: int
    """How many pages were damaged."""
    records: int
    """How many records were taken from a source."""
    states: int
    """How many states were taken from a backup."""
    figures: Figures


class Backup:
    """A backup as a source of records and states."""

    def __init__(self, snapshot: SqliteSnapshot) -> None:
        self._snapshot = snapshot
        self.head = snapshot.find_head()

    def note(self, record: Record) -> None:
        """Do nothing: the records of a backup are complete."""

    def find_records(self, first: int, last: int) -> Iterator[Record]:
        return _scan_records(self._snapshot.db, first, last)

    def find_states(self, after: StateKey, before: StateKey | None) -> Iterator[StateRow]:
        """Yield the states between two keys; up to the last one if there is no second key."""
        for row in _scan_states(self._snapshot.db, after):
            if before is not None and row[:2] >= before:
                return
            yield row


def repair(
    directory: Path, backup: Path | None, sources: Sequence[RecordSource], verify: Verify, list_tags: ListTags
) -> Repaired | None:
    """Repair the store of a data directory that no server uses. Returns None if it is not damaged.

    The damaged file is kept beside the store as `mainstem.db.damaged`. If the repair fails, nothing has changed.
    """
    path = directory / STORE_NAME
    lock = DirectoryLock(directory)
    lock.acquire()
    try:
        _empty_wal(path)
        with open_snapshot(path) as snapshot:
            pages = len(list(snapshot.find_damaged_pages()))
            if not pages:
                return None
            with partial_file(path) as partial:
                if backup is None:
                    taken = _rebuild(snapshot, partial, None, sources, list_tags)
                else:
                    with open_snapshot(backup) as copy:
                        taken = _rebuild(snapshot, partial, Backup(copy), sources, list_tags)
                figures = _verify(partial, verify)
                _keep_damaged(path)
                move_into_place(partial, path)
                remove_journal(directory)
    finally:
        lock.release()
    return Repaired(pages, *taken, figures)


def _empty_wal(path: Path) -> None:
    """Move the WAL into the database file, so that it cannot be applied to the file that replaces it."""
    db = open_writer(path, None)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()


def _rebuild(
    damaged: SqliteSnapshot,
    partial: Path,
    backup: Backup | None,
    sources: Sequence[RecordSource],
    list_tags: ListTags,
) -> tuple[int, int]:
    """Fill a new database, and return how many records and states were taken from elsewhere."""
    unfolded = damaged.find_unfolded()
    everywhere = [*([] if backup is None else [backup]), *sources]
    db = open_writer(partial, None)
    try:
        db.pragma("journal_mode", "delete")
        db.pragma("synchronous", "off")  # the whole file is synced once, before it replaces the store
        migrate(db)
        with db:
            records = _copy_records(damaged.db, db, everywhere, list_tags)
            states = _copy_states(damaged, db, backup)
            _copy_positions(damaged.db, db)
            if unfolded:
                insert_batches(db, unfolded)
            queries.merge_append_index(db)
            queries.change_store_id(db)
    finally:
        db.close()
    return records, states


# Records


def _copy_records(
    damaged: apsw.Connection, db: apsw.Connection, sources: Sequence[RecordSource], list_tags: ListTags
) -> int:
    taken = 0
    group: list[Record] = []

    def add(record: Record) -> None:
        for source in sources:
            source.note(record)
        group.append(replace(record, tags=tuple(list_tags(record))))
        if len(group) == queries.ROWS_PER_STEP:
            _insert(db, group)

    for found in _salvage_records(damaged):
        if isinstance(found, Record):
            add(found)
            continue
        for record in _find_in_sources(found, sources):
            add(record)
            taken += 1
    _insert(db, group)
    return taken


def _insert(db: apsw.Connection, group: list[Record]) -> None:
    queries.insert_records(db, group)
    queries.index_appends(db, group)
    queries.insert_tags(db, group)
    group.clear()


def _find_in_sources(gap: Gap, sources: Sequence[RecordSource]) -> list[Record]:
    found: dict[int, Record] = {}
    for source in sources:
        for record in source.find_records(gap.first, gap.last):
            found.setdefault(record.committed_id, record)
    return [found[committed_id] for committed_id in sorted(found)]


def _scan_records(db: apsw.Connection, first: int, last: int) -> Iterator[Record]:
    columns = 'committed_id, committed_at_us, kind, topic, "start", "end", messages, data, source'
    rows = db.execute(
        f"SELECT {columns} FROM records WHERE committed_id BETWEEN ? AND ? ORDER BY committed_id", (first, last)
    )
    for committed_id, at_us, kind, *rest in rows:
        yield Record(CommittedId(committed_id), at_us, Kind(kind), *rest)


def _salvage_records(db: apsw.Connection) -> Iterator[Record | Gap]:
    """Yield all readable records in order, and the gaps between them."""
    after = 0
    while True:
        try:
            for record in _scan_records(db, after + 1, limits.INTEGER_MAX):
                yield record
                after = record.committed_id
            return
        except apsw.Error as error:
            _require_damage(error)
        following = _find_readable(db, after)
        yield Gap(after + 1, (following or limits.INTEGER_MAX) - 1)
        if following is None:
            return
        after = following - 1


def _find_readable(db: apsw.Connection, after: int) -> int | None:
    """Return the first id after damage whose record can be read; None if there is none."""
    for first in range(after + 2, after + 2 + limits.REPAIR_PROBES_MAX):
        try:
            return next((record.committed_id for record in _scan_records(db, first, limits.INTEGER_MAX)), None)
        except apsw.Error as error:
            _require_damage(error)
    return None


def _require_damage(error: apsw.Error) -> None:
    if not is_damage(error):
        raise error


# States


def _scan_states(db: apsw.Connection, after: StateKey, *, backwards: bool = False) -> Iterator[StateRow]:
    comparison, order = ("<", "DESC") if backwards else (">", "ASC")
    return db.execute(
        f"SELECT space, name, due_us, value FROM states WHERE (space, name) {comparison} (?, ?)"
        f" ORDER BY space {order}, name {order}",
        after,
    )


def _copy_states(damaged: SqliteSnapshot, db: apsw.Connection, backup: Backup | None) -> int:
    """Copy the states. Those that cannot be read are taken from a backup, if nothing was committed after it."""
    after, complete = FIRST_KEY, True
    rows: list[StateRow] = []
    try:
        for row in _scan_states(damaged.db, FIRST_KEY):
            rows.append(row)
            after = row[:2]
    except apsw.Error as error:
        _require_damage(error)
        complete = False
    taken = 0
    if not complete:
        before = _copy_states_backwards(damaged.db, after, rows)
        if backup is None or backup.head != damaged.find_head():
            raise RepairFailed(
                "states are damaged, and only a backup of the same committed id has them: restore the newest backup "
                "with `mainstem restore`"
            )
        missing = list(backup.find_states(after, before))
        rows += missing
        taken = len(missing)
    for at in range(0, len(rows), queries.ROWS_PER_STEP):
        queries.insert_states(db, rows[at : at + queries.ROWS_PER_STEP])
    return taken


def _copy_states_backwards(db: apsw.Connection, until: StateKey, rows: list[StateRow]) -> StateKey | None:
    """Add the states from the last one back to the damage, and return the key of the first of them."""
    before: StateKey | None = None
    try:
        for row in _scan_states(db, (limits.INTEGER_MAX, ""), backwards=True):
            if row[:2] <= until:
                break
            rows.append(row)
            before = row[:2]
    except apsw.Error as error:
        _require_damage(error)
    return before


def _copy_positions(damaged: apsw.Connection, db: apsw.Connection) -> None:
    """Copy the head, and the position in the journal."""
    try:
        ((head,),) = damaged.execute("SELECT committed_id FROM head").fetchall()
        position = queries.journal_position(damaged)
    except apsw.Error as error:
        _require_damage(error)
        raise RepairFailed("the position of the log is damaged: restore a backup with `mainstem restore`") from None
    db.execute("UPDATE head SET committed_id = ?", (head,))
    queries.set_folded(db, position.folded)
    queries.set_erasures(db, position.erasures)


# Replacing the file


def _verify(partial: Path, verify: Verify) -> Figures:
    with open_snapshot(partial) as snapshot:
        report = verify(snapshot)
        if report.findings:
            more = " and others" if report.more or len(report.findings) > 1 else ""
            raise RepairFailed(
                f"not everything can be repaired: {report.findings[0].detail}{more}; name a newer backup, or restore "
                "one with `mainstem restore`"
            )
        return snapshot.measure()


def _keep_damaged(path: Path) -> None:
    kept = path.with_name(DAMAGED_NAME)
    kept.unlink(missing_ok=True)
    os.link(path, kept)
