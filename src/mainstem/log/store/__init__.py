"""The stores that keep the log, and the contract that they share (`base`)."""

from mainstem.log.store.base import Store
from mainstem.log.store.memory import MemoryStore
from mainstem.log.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
