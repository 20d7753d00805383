"""The embedded store: SQLite, through apsw."""

from mainstem.log.store.sqlite.store import ReadOnlySqliteStore, SqliteStore

__all__ = ["ReadOnlySqliteStore", "SqliteStore"]
