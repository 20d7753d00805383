"""The connections of the writer and the readers, and the lock that keeps a second server out of a data directory."""

import fcntl
import os
import time
from pathlib import Path

import apsw

from mainstem import limits
from mainstem.errors import StoreLocked, StoreUnusable
from mainstem.log.store.sqlite.checksums import CHECKSUM, is_intact, reserve_checksums, use_checksums
from mainstem.log.store.sqlite.errors import WAY_OUT
from mainstem.log.store.sqlite.queries import STATEMENTS_CACHED
from mainstem.private_files import PRIVATE, make_private

STORE_NAME = "mainstem.db"
BUSY_MS = 5_000
LOCK_POLL_S = 0.01
PAGE_BYTES = 8 * limits.KIB
"""Appends of 10 KB took 40 % less processor time than with 4 KiB, and small ones the same. 16 KiB wastes more space."""


RESERVED_AT = 20
"""The position of the byte in the header of a database that tells how much of each page is reserved."""


def open_writer(path: Path, vfs: str | None) -> apsw.Connection:
    use_checksums()
    db = apsw.Connection(str(path), vfs=vfs, statementcachesize=STATEMENTS_CACHED)
    db.set_busy_timeout(BUSY_MS)
    # These two have no effect on an existing database.
    db.pragma("page_size", PAGE_BYTES)
    reserve_checksums(db)
    db.pragma("journal_mode", "wal")
    # FULL syncs the WAL at every commit. With NORMAL, a power failure would undo commits whose batches are no longer in
    # the journal.
    db.pragma("synchronous", "full")
    db.pragma("journal_size_limit", limits.WAL_BYTES_MAX)
    db.pragma("cache_size", -16 * limits.KIB)
    # The store checkpoints between batches, after the callers have been answered.
    db.wal_autocheckpoint(0)
    return db


def open_reader(path: Path, vfs: str | None) -> apsw.Connection:
    use_checksums()
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    db.set_busy_timeout(BUSY_MS)
    db.pragma("query_only", True)
    db.pragma("cache_size", -4 * limits.KIB)
    return db


def require_known_format(path: Path) -> None:
    """Raise an error if the header of a database file is wrong about whether its pages have checksums.

    Without this, one flipped bit there would make SQLite read the pages wrongly and without verification.
    """
    try:
        with path.open("rb") as file:
            page = bytearray(file.read(PAGE_BYTES))
    except FileNotFoundError:
        return
    if len(page) < PAGE_BYTES or page[RESERVED_AT] == CHECKSUM.size:
        return
    reserved, page[RESERVED_AT] = page[RESERVED_AT], CHECKSUM.size
    if reserved != 0 or is_intact(bytes(page)):
        raise StoreUnusable(f"{path} is damaged: its header is wrong; {WAY_OUT}")


class DirectoryLock:
    """Allows one server per data directory. The kernel releases the lock when its process ends, even by a crash."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Lock the directory, or raise `StoreLocked`. It blocks only while the process that locked it is dead.

        A process that a killed server was just starting holds a copy of the lock until it executes its program.
        """
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        make_private(self.path)
        deadline_s = time.monotonic() + limits.LOCK_WAIT_S_MAX
        while not _try_lock(file):
            holder = os.pread(file, 32, 0).decode("ascii", "replace").strip()
            if _is_running(holder) or time.monotonic() > deadline_s:
                os.close(file)
                raise StoreLocked(f"the data directory {self.path.parent} is in use by process {holder or 'unknown'}")
            time.sleep(LOCK_POLL_S)
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_running(process: str) -> bool:
    """Return whether a process exists; a lock without a valid name belongs to one that has just begun to write it."""
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True
