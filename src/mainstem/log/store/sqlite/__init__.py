"""The embedded store, on SQLite through apsw."""

from mainstem.log.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
