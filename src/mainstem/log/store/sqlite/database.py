"""The database file: the only connection that writes to it, on a thread of its own.

Batches come here from the journal, many at a time. Erasing, checkpoints and the disk space that is reserved for deletes
are here too. A failure that leaves the content of the disk uncertain breaks the database: nothing is written any more.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from mainstem import limits
from mainstem.errors import RETRY_AFTER, StoreFailed, StoreFull
from mainstem.log.records import CommittedId, TopicId
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.connections import BUSY_MS, open_writer, require_known_format
from mainstem.log.store.sqlite.errors import explain, explain_unusable, is_damage
from mainstem.log.store.sqlite.journal import Batch, Position, StateRow
from mainstem.log.store.sqlite.reserve import Reserve
from mainstem.log.store.sqlite.schema import migrate
from mainstem.metrics.instruments import Histogram

logger = logging.getLogger(__name__)
T = TypeVar("T")


def insert_batches(db: apsw.Connection, batches: Sequence[Batch]) -> int:
    """Store batches of the journal, within a transaction, and return how many appends they hold."""
    records = [record for batch in batches for record in batch.content.records]
    newest: dict[tuple[int, str], StateRow] = {}
    for batch in batches:
        for row in batch.content.states:
            newest[row[:2]] = row
    queries.insert_records(db, records)
    appends = queries.index_appends(db, records)
    queries.insert_tags(db, records)
    queries.save_states(db, list(newest.values()))
    queries.set_folded(db, batches[-1].number)
    return appends


class Database:
    """Methods run on the thread of the writer; the properties may be read anywhere."""

    def __init__(self, path: Path, vfs: str | None) -> None:
        self.path = path
        self.broken: str | None = None
        """Why nothing is written any more; None if it is."""
        self.nearly_full = False
        """Whether the remaining disk space is reserved for deletes."""
        self.erasures = 0
        """How many transactions have erased records."""
        self.checkpoint_seconds: Histogram | None = None
        """Where the length of checkpoints is counted."""
        self._vfs = vfs
        self._db: apsw.Connection
        self._page_bytes = 0
        self._wal_pages = 0
        self._free_bytes = 0
        self._growth_owed = 0
        self._disk_bytes = 0
        self._unmerged_appends = 0
        self._full: str | None = None
        self._reserve = Reserve(path.with_name("reserve"))
        self._reserve_released = False

    @property
    def full(self) -> str | None:
        return "the remaining disk space is reserved for deletes" if self.nearly_full else self._full

    @property
    def needs_space(self) -> bool:
        """Whether the disk is full, or was when the reserve was last needed."""
        return self.full is not None or not self._reserve.is_held

    def open(self) -> tuple[CommittedId, Position]:
        """Open the file, and return its head, and what it holds of the journal."""
        require_known_format(self.path)
        self._db = open_writer(self.path, self._vfs)
        migrate(self._db)
        self._db.set_wal_hook(self._count_wal)
        self._page_bytes = int(self._db.pragma("page_size"))
        self._unmerged_appends = queries.count_unmerged_appends(self._db)
        if not self._reserve.acquire():
            logger.warning("not enough disk space to reserve %d bytes for deletes", limits.RESERVE_BYTES)
        self._measure()
        position = queries.journal_position(self._db)
        self.erasures = position.erasures
        return queries.head(self._db), position

    def verify_newest(self) -> None:
        """Read the newest records, whose pages the next writes change. If one is damaged, nothing more is written."""
        try:
            queries.read_newest(self._db, limits.START_CHECK_RECORDS, limits.START_CHECK_BYTES)
        except apsw.Error as error:
            if not is_damage(error):
                raise
            reason = explain_unusable(error)
            self.broken = f"the newest part of the database is damaged: {reason}"
            logger.critical(
                "writes are refused: the newest part of the database is damaged: %s", reason, exc_info=error
            )

    def close(self) -> None:
        try:
            self._db.close()
        except apsw.Error:
            logger.exception("the store did not close cleanly; its journal will be replayed at the next start")
        self._reserve.release()

    # Writing

    def fold(self, batches: Sequence[Batch]) -> int:
        """Store batches of the journal, in one transaction, and return the number of the last one.

        On a full disk it uses the reserved space, because these batches were acknowledged. It then stores one at a
        time, and maybe not all of them.
        """
        try:
            return self._fold(batches)
        except StoreFull:
            if not self.make_room():
                raise
            return self._fold_singly(batches)

    def _fold_singly(self, batches: Sequence[Batch]) -> int:
        """Store batches one by one, so that the WAL needs no more space than the largest of them."""
        folded = self._fold(batches[:1])
        try:
            for batch in batches[1:]:
                self.empty_wal()
                folded = self._fold([batch])
        except StoreFull:
            logger.debug("the disk has space for the batches up to %d only", folded)
        return folded

    def _fold(self, batches: Sequence[Batch]) -> int:
        with self._transaction() as db:
            unmerged = self._unmerged_appends + insert_batches(db, batches)
            if unmerged >= limits.UNMERGED_APPENDS_MAX:
                queries.merge_append_index(db)
                unmerged = 0
        self._unmerged_appends = unmerged
        self.update_full()
        return batches[-1].number

    def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        self._with_room(self._erase_tagged, committed_ids, tags)

    def _erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        with self._transaction() as db:
            queries.keep_head(db)
            queries.erase_tagged(db, committed_ids, tags)
            queries.set_erasures(db, self.erasures + 1)
        self.erasures += 1
        self.update_full()

    def erase(self, topic: TopicId, until: int, limit: int) -> int:
        return self._with_room(self._erase, topic, until, limit)

    def _erase(self, topic: TopicId, until: int, limit: int) -> int:
        with self._transaction() as db:
            queries.keep_head(db)
            queries.merge_append_index(db)
            erased = queries.erase(db, topic, until, limit)
            queries.set_erasures(db, self.erasures + 1)
        self.erasures += 1
        self._unmerged_appends = 0
        self.update_full()
        return erased

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        """Run a transaction. Raises if it cannot be made durable; after a failed sync, refuses every further one."""
        if self.broken:
            raise StoreFailed(f"writes are refused since an earlier failure: {self.broken}", headers=RETRY_AFTER)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except apsw.FullError as error:
            self._full = explain(error)
            self._roll_back()
            raise StoreFull("nothing was stored: the disk is full", headers=RETRY_AFTER) from error
        except apsw.Error as error:
            self._break(error)
            self._roll_back()
            raise StoreFailed(f"the write could not be made durable: {self.broken}", headers=RETRY_AFTER) from error
        except BaseException:
            self._roll_back()
            raise

    def _break(self, error: apsw.Error) -> None:
        self.broken = explain(error)
        logger.critical(
            "a write could not be made durable; writes are refused from now on: %s", self.broken, exc_info=error
        )

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as error:
                self.broken = self.broken or explain(error)
                logger.critical("a transaction could not be rolled back: %s", explain(error), exc_info=error)

    # Disk space

    def note_full(self, reason: str) -> None:
        """Note that the journal found the disk full."""
        self._full = reason

    def has_room(self, size: int) -> bool:
        """Return whether this many bytes can be folded and checkpointed. Any thread may ask.

        What is accepted without room for it could neither be folded nor deleted any more. The journal and the WAL take
        space for a while, and may use that of the reserve. The database may not: it would not give it back.
        """
        growth = max(0, size + self._growth_owed - self._free_bytes)
        return self._disk_bytes >= 2 * size + growth and not (growth and self._reserve_released)

    def make_room(self) -> bool:
        """Release the reserve and empty the WAL, for writes that free space. Other writes are then refused."""
        if self.broken:
            return False
        self._release_reserve()
        self.empty_wal()
        return not self.broken

    def _release_reserve(self) -> bool:
        self._reserve_released = self.nearly_full = True
        if not self._reserve.release():
            return False
        logger.error("the disk is full: deletes use the reserved space, other writes are refused")
        return True

    def _with_room(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job that must be done even on a full disk."""
        try:
            return job(*args)
        except StoreFull:
            if not self.make_room():
                raise
            return job(*args)

    def update_full(self) -> None:
        """Update the full flags after a write. It may have been a small one, so look at the disk before trusting it."""
        self._measure()
        if self._reserve_released:
            self.nearly_full = not self.has_room(limits.FREE_BYTES_MIN)
        if self._full and not self.nearly_full and self.has_room(limits.FREE_BYTES_MIN):
            self._full = None

    def _acquire_reserve(self) -> bool:
        """Reserve the space again, unless other writes would find no room then."""
        self._measure()
        return self._disk_bytes >= limits.RESERVE_BYTES + 2 * limits.FREE_BYTES_MIN and self._reserve.acquire()

    def _measure(self) -> None:
        """Measure the space of the disk, and within the files, which the next writes use first."""
        disk = os.statvfs(self.path.parent)
        self._disk_bytes = disk.f_bavail * disk.f_frsize
        self._free_bytes = int(self._db.pragma("freelist_count")) * self._page_bytes
        size = int(self._db.pragma("page_count")) * self._page_bytes
        self._growth_owed = max(0, size - self.path.stat().st_size)

    def look_for_space(self) -> None:
        """Return to normal if the disk has space again."""
        self._measure()
        enough = limits.FREE_BYTES_MIN
        if self._full and self._free_bytes >= enough and not self.has_room(enough):
            self._reserve.release()  # only the journal and the WAL need space of the disk
            self._reserve_released = True
        if self._reserve_released:
            self.empty_wal()
        if self._reserve.is_held or self._acquire_reserve():
            self._reserve_released = self.nearly_full = False
        if self._full and not self.nearly_full:
            with self._transaction() as db:
                db.pragma("user_version", db.pragma("user_version"))  # the smallest possible write
        self.update_full()

    # SQLite's own journal, the WAL

    def _count_wal(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def checkpoint_when_due(self) -> None:
        if self._reserve_released:
            self.empty_wal()
        elif self._wal_pages >= limits.WAL_PAGES:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)  # it never waits for readers; the next one does the rest
            if not self.broken:
                self._begin_wal_again()

    def _begin_wal_again(self) -> None:
        """Write something, so that SQLite begins the WAL again, unless a reader still needs it.

        If a frame of it got damaged, SQLite would use older frames in place of what the checkpoint has moved.
        """
        try:
            with self._transaction() as db:
                queries.set_erasures(db, self.erasures)
        except StoreFull as error:
            logger.debug("not enough disk space to begin the WAL again: %s", error)

    def empty_wal(self) -> None:
        """Move the WAL into the database file, and give its space back to the disk, unless a reader still needs it."""
        self._db.set_busy_timeout(int(limits.WAL_READERS_WAIT_S * 1_000))
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._db.set_busy_timeout(BUSY_MS)

    def _checkpoint(self, mode: int) -> None:
        self._wal_pages = 0
        began_s = time.perf_counter()
        try:
            try:
                self._db.wal_checkpoint(mode=mode)
            except apsw.FullError:
                if not self._release_reserve():
                    raise
                self._db.wal_checkpoint(mode=mode)
            if self.checkpoint_seconds is not None:
                self.checkpoint_seconds.observe(time.perf_counter() - began_s)
            self._measure()
        except apsw.FullError as error:
            logger.error("not enough disk space to checkpoint the WAL, which keeps growing", exc_info=error)
        except apsw.BusyError as error:
            logger.debug("a reader keeps the WAL from being emptied: %s", error)
        except apsw.Error as error:
            self.broken = self.broken or explain(error)
            logger.critical("the WAL could not be checkpointed; writes are refused: %s", explain(error), exc_info=error)
