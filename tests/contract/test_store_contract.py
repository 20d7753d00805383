"""Every store passes the same contract tests."""

from pathlib import Path

import pytest

from mainstem import limits
from mainstem.log.store import MemoryStore, SqliteStore, Store
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.store_contract import DurableStoreContract, StoreContract


class TestMemoryStore(StoreContract):
    def open_store(self) -> Store:
        return MemoryStore()


class TestSqliteStore(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def prepare(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def open_store(self) -> Store:
        return SqliteStore(self.directory)


class TestSqliteStoreThatMergesItsIndexOften(TestSqliteStore):
    """With the usual limit, no test would write enough for a merge."""

    @pytest.fixture(autouse=True)
    def merge_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "UNMERGED_APPENDS_MAX", 3)


class TestSqliteStoreThatFoldsAtOnce(TestSqliteStore):
    """Usually most of a test is over before the database gets anything."""

    @pytest.fixture(autouse=True)
    def fold_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "FOLD_RECORDS", 0)


class TestSqliteStoreOnAFaultyDiskWithoutFaults(DurableStoreContract):
    """The disk of the fault tests must not cause failures of its own."""

    @pytest.fixture(autouse=True)
    def prepare(self, tmp_path: Path, disk: FaultyDisk) -> None:
        self.directory = tmp_path
        self.disk = disk

    def open_store(self) -> Store:
        return SqliteStore(self.directory, self.disk)


class TestPostgresStore(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def prepare(self, postgres_url: str) -> None:
        self.url = postgres_url

    def open_store(self) -> Store:
        return PostgresStore(self.url)
