"""A snapshot of a SQLite store: a read transaction on a connection of its own. The server may run meanwhile."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from mainstem import limits
from mainstem.errors import StoreTooNew, StoreUnusable
from mainstem.log.records import Kind
from mainstem.log.store.snapshot import Finding, StoreSnapshot
from mainstem.log.store.sqlite.checksums import find_damaged_pages, has_checksums, use_checksums
from mainstem.log.store.sqlite.connections import BUSY_MS, STORE_NAME, require_known_format
from mainstem.log.store.sqlite.errors import explain, explain_unusable
from mainstem.log.store.sqlite.journal import Batch, Found, choose_unfolded, read_journal
from mainstem.log.store.sqlite.queries import APPENDS, journal_position
from mainstem.log.store.sqlite.schema import APPLICATION_ID, STEPS


@contextmanager
def open_snapshot(path: Path, vfs: str | None = None) -> Iterator["SqliteSnapshot"]:
    """Open a snapshot of the store as it is now."""
    if not path.is_file():
        raise StoreUnusable(f"there is no store at {path}")
    # Before the database, so that what is folded meanwhile is in the snapshot. Copies with other names have no journal.
    found = read_journal(path.parent) if path.name == STORE_NAME else []
    use_checksums()
    require_known_format(path)
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    except apsw.Error as error:
        raise StoreUnusable(f"cannot open {path}: {explain_unusable(error)}") from None
    try:
        version = _begin(path, db)
        if version > len(STEPS):
            raise StoreTooNew(
                f"{path} has schema version {version}, but this mainstem only knows {len(STEPS)}: upgrade mainstem"
            )
        yield SqliteSnapshot(path, db, found)
    finally:
        db.close()


def _begin(path: Path, db: apsw.Connection) -> int:
    """Begin the transaction, and return the version of the schema. The first read fixes what the connection sees."""
    db.set_busy_timeout(BUSY_MS)
    try:
        db.pragma("cache_size", -limits.CHECK_CACHE_BYTES // limits.KIB)
        db.execute("BEGIN")
        if db.pragma("application_id") != APPLICATION_ID:
            raise StoreUnusable(f"{path} is a SQLite database, but not a Mainstem store")
        return int(db.pragma("user_version"))
    except apsw.Error as error:
        raise StoreUnusable(f"cannot read {path}: {explain_unusable(error)}") from None


LOST_PLACES = f"""
    SELECT topic, committed_id FROM places WHERE NOT EXISTS (
        SELECT 1 FROM records WHERE records.committed_id = places.committed_id AND kind = {Kind.APPEND:d}
            AND records.topic = places.topic AND records."end" = places."end")"""
MISPLACED = f"""
    SELECT topic, committed_id, (SELECT count(*) FROM places WHERE places.topic = records.topic
        AND places."end" = records."end" AND places.committed_id = records.committed_id) AS times
    FROM records WHERE kind = {Kind.APPEND:d} AND times <> 1"""
FIRST, LAST = (
    f'SELECT "start", place."end" FROM {APPENDS} WHERE place.topic = ? ORDER BY place."end" {order} LIMIT 1'
    for order in ("ASC", "DESC")
)


class SqliteSnapshot(StoreSnapshot):
    storage = "file"
    read_errors = (apsw.Error, UnicodeDecodeError)

    def __init__(self, path: Path, db: apsw.Connection, journal: Sequence[Found]) -> None:
        self.path = path
        self.db = db
        self._journal = journal

    @property
    def is_current(self) -> bool:
        """Whether the schema is the current one: False until a server has opened a store of an older version."""
        return int(self.db.pragma("user_version")) == len(STEPS)

    def find_unfolded(self) -> list[Batch]:
        """Return what is in the journal of the store and not in this snapshot."""
        if not self.is_current:
            return []
        return choose_unfolded(self._journal, journal_position(self.db))

    def find_obstacle(self) -> None:
        if not self.is_current:
            raise StoreUnusable("the store is of an older version: start the server on it once to migrate it")

    def explain(self, error: Exception) -> str:
        return explain(error)

    def check_storage(self) -> Iterator[Finding]:
        """Check pages, indexes and column types, and that the index by topic lists each append exactly once."""
        for number in self.find_damaged_pages():
            yield Finding("page", f"page {number} is damaged: its checksum is wrong")
        for (line,) in self.db.execute(f"PRAGMA integrity_check({limits.CHECK_FINDINGS_MAX})"):
            if line != "ok":
                text = line.removeprefix("*** in database main ***").replace("\n", " ").strip()
                yield Finding("file", f"the integrity check of SQLite reports: {text}")
        try:
            self.find_unfolded()
        except StoreUnusable as error:
            yield Finding("journal", error.detail)
        for topic, committed_id in self.db.execute(LOST_PLACES):
            yield Finding("place", f"the index lists record {committed_id} in topic {topic}, but it does not exist")
        for topic, committed_id, times in self.db.execute(MISPLACED):
            yield Finding("place", f"the index lists record {committed_id} of topic {topic} {times} times, not once")

    def find_damaged_pages(self) -> Iterator[int]:
        if has_checksums(self.db):
            pages, page_bytes = (int(self.db.pragma(name)) for name in ("page_count", "page_size"))
            yield from find_damaged_pages(self.path, pages, page_bytes)

    def find_extents(self, topics: Sequence[int]) -> dict[int, tuple[int, int]]:
        extents: dict[int, tuple[int, int]] = {}
        for topic in topics:
            first, last = (self.db.execute(end, (topic,)).fetchone() for end in (FIRST, LAST))
            if first is not None and last is not None:
                extents[topic] = first[0], last[1]
        return extents

    def _scan(self, statement: str, *values: Any) -> Iterator[Any]:
        return self.db.execute(statement, values)

    def _fetch(self, statement: str, *values: Any) -> list[Any]:
        return list(self.db.execute(statement, values))

    def _encode_text(self, text: str) -> str:
        return text

    def _decode_text(self, stored: str) -> str:
        return stored
