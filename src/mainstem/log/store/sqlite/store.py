"""The embedded store: one writer thread, a few reader threads, and a cache of durable states.

Everything that touches the file runs off the event loop. The cache is only used on the event loop and only holds
durable states, so readers can be answered from it without a disk access.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, StoreFailed, StoreFull, StoreUnusable
from mainstem.log.commands import Key, Space, State
from mainstem.log.records import Chunk, CommittedId, Counts, Extent, Outline, Record, TopicId
from mainstem.log.store.base import Store
from mainstem.log.store.cache import StateCache
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.connections import DirectoryLock, open_reader, open_writer
from mainstem.log.store.sqlite.errors import explain, explain_directory, explain_unusable
from mainstem.log.store.sqlite.reserve import Reserve
from mainstem.log.store.sqlite.schema import migrate
from mainstem.log.store.sqlite.writer import WriterThread
from mainstem.private_files import prepare_database

logger = logging.getLogger(__name__)
T = TypeVar("T")


class SqliteStore(Store):
    def __init__(self, directory: Path | str, vfs: str | None = None) -> None:
        self.directory = Path(directory)
        self.path = self.directory / "mainstem.db"
        self._vfs = vfs
        self._lock = DirectoryLock(self.directory)
        self._writer = WriterThread("mainstem-writer")
        self._reading = ThreadPoolExecutor(limits.READERS, "mainstem-reader")
        self._reader = threading.local()
        self._readers: list[apsw.Connection] = []
        self._db: apsw.Connection
        self._journal_pages = 0
        self._unmerged_appends = 0
        self._head = CommittedId(0)
        self._cache = StateCache()
        self._saves = 0
        self._broken: str | None = None
        self._full: str | None = None
        self._nearly_full = False
        self._reserve_released = False
        self._reserve = Reserve(self.directory / "reserve")
        self._space_watch: asyncio.Task[None] | None = None

    @property
    def head(self) -> CommittedId:
        return self._head

    @property
    def broken(self) -> str | None:
        return self._broken

    @property
    def full(self) -> str | None:
        return "the remaining disk space is reserved for deletes" if self._nearly_full else self._full

    @property
    def nearly_full(self) -> bool:
        return self._nearly_full

    # Opening and closing

    async def open(self) -> None:
        self._writer.start()
        try:
            self._head = await self._writer.run(self._open)
        except BaseException:
            self._writer.stop()
            raise
        self._space_watch = asyncio.create_task(self._watch_space())

    def _open(self) -> CommittedId:
        try:
            # Private, because it holds the signing keys as well as the data.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
            prepare_database(self.path)
        except OSError as error:
            self._lock.release()
            raise StoreUnusable(f"cannot use the data directory {self.directory}: {explain_directory(error)}") from None
        try:
            self._db = open_writer(self.path, self._vfs)
            migrate(self._db)
            self._db.set_wal_hook(self._count_journal)
            self._unmerged_appends = queries.count_unmerged_appends(self._db)
            if not self._reserve.acquire():
                logger.warning("not enough disk space to reserve %d bytes for deletes", limits.RESERVE_BYTES)
            return queries.head(self._db)
        except OSError as error:
            self._lock.release()
            raise StoreUnusable(f"cannot use the data directory {self.directory}: {explain_directory(error)}") from None
        except apsw.Error as error:
            self._lock.release()
            raise StoreUnusable(f"cannot open {self.path}: {explain_unusable(error)}") from error
        except BaseException:
            self._lock.release()
            raise

    async def close(self) -> None:
        if self._space_watch is not None:
            self._space_watch.cancel()
            await asyncio.gather(self._space_watch, return_exceptions=True)
        await self._writer.run(self._close)
        self._writer.stop()

    def _close(self) -> None:
        self._reading.shutdown()
        for db in self._readers:
            db.close()
        try:
            self._db.close()
        except apsw.Error:
            logger.exception("the store did not close cleanly; its journal will be replayed at the next start")
        self._reserve.release()
        self._lock.release()

    # Threads

    async def _read(self, job: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._with_reader, job, args)

    def _with_reader(self, job: Callable[..., T], args: tuple[Any, ...]) -> T:
        db: apsw.Connection | None = getattr(self._reader, "db", None)
        if db is None:
            db = self._reader.db = open_reader(self.path, self._vfs)
            self._readers.append(db)
        try:
            return job(db, *args)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreUnusable(f"cannot read {self.path}: {explain_unusable(error)}") from error

    # For the committer

    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        states: dict[Key, State | None] = {}
        missing: list[Key] = []
        cache = self._cache
        for key in keys:
            if key in cache:
                states[key] = cache[key]
            else:
                missing.append(key)
        if missing:
            for key, state in (await self._read(queries.load, missing)).items():
                states[key] = state
                self._cache.remember(key, state)
        return states

    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        await self._writer.run(self._save, changes, records)
        self._saves += 1
        self._head = head
        for key, state in changes.items():
            self._cache.remember(key, state)
        if self._journal_pages >= limits.WAL_PAGES or self._reserve_released:
            self._writer.post(self._checkpoint)

    def _save(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        with self._transaction() as db:
            queries.insert_records(db, records)
            unmerged = self._unmerged_appends + queries.index_appends(db, records)
            queries.insert_tags(db, records)
            queries.save_states(db, changes)
            if unmerged >= limits.UNMERGED_APPENDS_MAX:
                queries.merge_append_index(db)
                unmerged = 0
        self._unmerged_appends = unmerged
        self._update_full()

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        """Run a transaction. Raises if it cannot be made durable; after a failed sync, refuses every further one."""
        if self._broken:
            raise StoreFailed(f"writes are refused since an earlier failure: {self._broken}", headers=RETRY_AFTER)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except apsw.FullError as error:
            self._full = explain(error)
            self._roll_back()
            raise StoreFull("nothing was stored: the disk is full", headers=RETRY_AFTER) from error
        except apsw.Error as error:
            self._broken = explain(error)
            logger.critical(
                "a write could not be made durable; writes are refused from now on: %s", self._broken, exc_info=error
            )
            self._roll_back()
            raise StoreFailed(f"the write could not be made durable: {self._broken}", headers=RETRY_AFTER) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as error:
                self._broken = self._broken or explain(error)
                logger.critical("a transaction could not be rolled back: %s", explain(error), exc_info=error)

    # Disk space

    async def make_room(self) -> bool:
        return await self._writer.run(self._make_room)

    def _make_room(self) -> bool:
        """Release the reserve and checkpoint the journal, for writes that free space. Other writes are then refused."""
        if self._broken:
            return False
        self._release_reserve()
        self._checkpoint()
        return not self._broken

    def _release_reserve(self) -> bool:
        self._reserve_released = self._nearly_full = True
        if not self._reserve.release():
            return False
        logger.error("the disk is full: deletes use the reserved space, other writes are refused")
        return True

    async def _free(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job that frees space, even on a full disk."""
        return await self._writer.run(self._make_room_for, job, *args)

    def _make_room_for(self, job: Callable[..., T], *args: Any) -> T:
        try:
            freed = job(*args)
        except StoreFull:
            if not self._make_room():
                raise
            freed = job(*args)
        self._update_full()
        return freed

    def _update_full(self) -> None:
        """Update the full flags after a write. It may have been a small one, so look at the disk before trusting it."""
        if self._reserve_released:  # writes may use the free pages of the database itself, down to a minimum
            self._nearly_full = self._free_bytes() < limits.FREE_BYTES_MIN
        if self._full and not self._nearly_full:
            disk = os.statvfs(self.directory)
            if max(disk.f_bavail * disk.f_frsize, self._free_bytes()) >= limits.FREE_BYTES_MIN:
                self._full = None

    def _free_bytes(self) -> int:
        """Return the size of the free pages within the database."""
        pages: int = self._db.pragma("freelist_count")
        return pages * int(self._db.pragma("page_size"))

    async def _watch_space(self) -> None:
        while True:
            await asyncio.sleep(limits.ROOM_CHECK_S)
            if self._broken or not (self.full or not self._reserve.is_held):
                continue
            try:
                await self._writer.run(self._look_for_space)
            except (MainstemError, apsw.Error, OSError) as error:
                logger.debug("the disk is still full: %s", error)

    def _look_for_space(self) -> None:
        if self._reserve.is_held or self._reserve.acquire():
            self._reserve_released = self._nearly_full = False
        if self._reserve_released:
            self._checkpoint()  # the journal cannot grow, so it must start from its beginning again
        if self._full and not self._nearly_full:
            with self._transaction() as db:
                db.pragma("user_version", db.pragma("user_version"))  # the smallest possible write
        self._update_full()

    # The journal

    def _count_journal(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._journal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the journal into the database file. PASSIVE never waits for readers; the next call does the rest."""
        self._journal_pages = 0
        try:
            try:
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.FullError:
                if not self._release_reserve():
                    raise
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError as error:
            logger.error("not enough disk space to checkpoint the journal, which keeps growing", exc_info=error)
        except apsw.Error as error:
            self._broken = self._broken or explain(error)
            logger.critical(
                "the journal could not be checkpointed; writes are refused: %s", explain(error), exc_info=error
            )

    # For readers

    async def get(self, key: Key) -> Any:
        if key in self._cache:
            return self._cache[key]
        return (await self.get_many([key]))[key]

    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        states = {key: self._cache[key] for key in keys if key in self._cache}
        missing = [key for key in keys if key not in states]
        if missing:
            saves = self._saves
            found = await self._read(queries.load, missing)
            states.update(found)
            if saves == self._saves:  # otherwise a save may have cached newer states meanwhile
                for key, state in found.items():
                    self._cache.remember(key, state)
        return states

    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        return await self._read(queries.scan, space, prefix, after, limit)

    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        return await self._read(queries.due, space, until_us, limit)

    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        return await self._read(queries.read, topic, start, until, bytes_max)

    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        return await self._read(queries.first_after, topic, committed_id)

    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        return await self._read(queries.outline, topic, start, until, limit, newest_first)

    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        return await self._read(queries.read_log, after, min(until, self.head), bytes_max, topics)

    async def measure(self, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
        return await self._read(queries.measure, after, min(until, self.head), rows_max, bytes_max)

    async def count(self) -> Counts:
        return await self._read(queries.count)

    async def read_tagged(
        self, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
    ) -> list[Record]:
        return await self._read(queries.read_tagged, tags, after, min(until, self.head), limit, bytes_max)

    async def last_tagged(self, tag: str) -> CommittedId:
        return await self._read(queries.last_tagged, tag)

    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        await self._free(self._erase_tagged, committed_ids, tags)

    def _erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        with self._transaction() as db:
            queries.keep_head(db)
            queries.erase_tagged(db, committed_ids, tags)

    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        return await self._free(self._erase, topic, until, limit)

    def _erase(self, topic: TopicId, until: int, limit: int) -> int:
        with self._transaction() as db:
            queries.keep_head(db)
            queries.merge_append_index(db)
            erased = queries.erase(db, topic, until, limit)
        self._unmerged_appends = 0
        return erased


class ReadOnlySqliteStore(SqliteStore):
    """Reads the file of a store that a server writes. It knows no head, so its callers must pass the last id."""

    @property
    def head(self) -> CommittedId:
        return CommittedId(limits.INTEGER_MAX)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._reading.shutdown()
        for db in self._readers:
            db.close()
