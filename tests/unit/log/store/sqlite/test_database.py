"""The database file beside readers: emptying SQLite's write-ahead log."""

from pathlib import Path

from mainstem.log.commands import Key
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.connections import open_reader
from mainstem.log.store.sqlite.database import Database
from mainstem.log.store.sqlite.journal import Batch, Content
from mainstem.testing.store_contract import NOTES, Note


def fold(database: Database, number: int) -> None:
    states = queries.list_states({Key(NOTES, f"{number}"): Note("x" * 1_000)})
    assert database.fold([Batch(number, Content(states, []))]) == number


def test_the_wal_is_emptied_once_no_reader_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.db"
    wal = tmp_path / "mainstem.db-wal"
    database = Database(path, None)
    database.open()
    fold(database, 1)
    reader = open_reader(path, None)
    assert reader.execute("BEGIN; SELECT count(*) FROM states").get == 1
    fold(database, 2)
    database.empty_wal()
    assert wal.stat().st_size > 0
    assert database.broken is None
    fold(database, 3)
    reader.execute("COMMIT")
    database.empty_wal()
    assert wal.stat().st_size == 0
    assert reader.execute("SELECT count(*) FROM states").get == 3
    reader.close()
    database.close()
