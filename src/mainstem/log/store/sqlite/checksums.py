"""The checksum at the end of each page of the database, which SQLite's checksum VFS writes and verifies.

A read of a page that has changed on disk fails with `apsw.IOError`; the other pages can still be read.
"""

import struct
import time
from collections.abc import Iterator
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Final

import apsw
from apsw import sqlite_extra

CHECKSUM: Final = struct.Struct("<2I")
LOCK_AT: Final = 0x40000000
"""SQLite never writes the page at this position."""
READ_AGAIN_S: Final = (0.01, 0.05, 0.2)
WORD_MAX: Final = 0xFFFFFFFF


@cache
def use_checksums() -> None:
    """Make the checksum VFS the one that connections of this process use, unless they name another one.

    It only affects databases with space for a checksum in each page.
    """
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    sqlite_extra.load(db, "cksumvfs")
    db.close()


def reserve_checksums(db: apsw.Connection) -> None:
    """Reserve the space for checksums in a database that has no pages yet, or is copied by VACUUM later."""
    db.reserve_bytes(reserve=CHECKSUM.size)


def begin_with_checksums(db: apsw.Connection, page_bytes: int) -> None:
    """Write the header of a new database with the space for checksums.

    The VFS adds checksums only after it has seen such a header, and a copy of many pages writes that at the end.
    """
    db.pragma("page_size", page_bytes)
    reserve_checksums(db)
    db.execute("CREATE TABLE header (x); DROP TABLE header")


def has_checksums(db: apsw.Connection) -> bool:
    return db.reserve_bytes() == CHECKSUM.size


def add_checksums(path: Path) -> None:
    """Write a database that an older version has made again, with checksums.

    The VFS adds them once it has seen a header that announces them. So the first VACUUM makes space for a checksum in
    each page, and the second one, which sees the new header, writes them.
    """
    use_checksums()
    db = apsw.Connection(str(path))
    try:
        if has_checksums(db):
            return
        reserve_checksums(db)
        db.execute("VACUUM")
    finally:
        db.close()
    db = apsw.Connection(str(path))
    try:
        db.pragma("checksum_verification", False)
        db.execute("VACUUM")
    finally:
        db.close()


def find_damaged_pages(path: Path, pages: int, page_bytes: int) -> Iterator[int]:
    """Yield the numbers of the pages in the file whose checksum is wrong. A server may be writing to it."""
    use_checksums()
    db = apsw.Connection(":memory:")
    with path.open("rb", buffering=0) as file:
        for number in range(1, pages + 1):
            if number != LOCK_AT // page_bytes + 1 and not _verify(db, file, number, page_bytes):
                yield number
    db.close()


def _verify(db: apsw.Connection, file: RawIOBase, number: int, page_bytes: int) -> bool:
    for wait_s in READ_AGAIN_S:
        file.seek((number - 1) * page_bytes)
        page = file.read(page_bytes)
        if not page or db.execute("SELECT verify_checksum(?)", (page,)).get:
            return True  # a page at the end may only be in the write-ahead log yet
        time.sleep(wait_s)  # it may have been read while it was being written
    return False


def is_intact(page: bytes) -> bool:
    """Return whether a page has the right checksum: two sums over pairs of words. For single pages; it is slow."""
    first = second = 0
    words = iter(struct.unpack(f"<{len(page) // 4 - 2}I", page[: -CHECKSUM.size]))
    for word in words:
        first = (first + word + second) & WORD_MAX
        second = (second + next(words) + first) & WORD_MAX
    return (first, second) == CHECKSUM.unpack(page[-CHECKSUM.size :])
