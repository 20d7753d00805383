"""Where the log is kept: one contract (`base`), and its stores."""

from mainstem.log.store.base import Store
from mainstem.log.store.memory import MemoryStore
from mainstem.log.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
