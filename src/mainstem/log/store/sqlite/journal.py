"""The journal: batches that are durable, but may not be in the database yet.

A commit writes one batch to a file and syncs it. The database gets many batches at once a little later; from then on
their space in the journal is used again. That is what makes commits cheap: a file system syncs data that replaces older
data much faster than data that makes a file longer.

There are two files. Each holds batches in the order of their numbers, and each batch begins at a block of the disk.
While the database gets the batches of one file, new ones go to the other. Whatever follows the last batch of a file is
of no significance: it is what an earlier use or an unfinished write has left.

A batch is written after the one before it is durable. So if a batch is found and one before it is not, that one was
damaged. Only the very last one cannot be told from an unfinished write, unless just one of its bits is wrong: then that
bit is corrected.

The journal also shows whether the database is complete. If a part of SQLite's write-ahead log is damaged, SQLite undoes
that transaction and all later ones. The journal then still has the batches that are missing, or some of them are
missing in it too, which is an error. Batches note how many transactions have erased records, because only the database
has these.
"""

import errno
import logging
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import adler32, crc32

import msgspec

from mainstem import limits
from mainstem.errors import StoreUnusable
from mainstem.log.records import Record
from mainstem.log.store.sqlite.bit_flips import find_flipped_bit, flip_bit
from mainstem.log.store.sqlite.direct import BLOCK_BYTES, UNSUPPORTED, DirectWriter, open_direct, whole_blocks
from mainstem.log.store.sqlite.writer import WriterThread
from mainstem.private_files import PRIVATE, make_private

logger = logging.getLogger(__name__)
NAMES: Final = ("journal-0", "journal-1")
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
HEADER = struct.Struct("<8sQIII")
"""The id of the store, the number of the batch, the length of its content, and two checksums of all that."""
PREFIX = struct.Struct("<8sQI")
CHECKSUMS = struct.Struct("<II")

StateRow = tuple[int, str, int | None, msgspec.Struct | msgspec.Raw | None]
"""Space, name, due time and value of a state. The value is the state itself, or its encoding if it was read from a
file; None, or its encoding, if the state is removed."""


class Content(msgspec.Struct, array_like=True, frozen=True, gc=False):
    states: Sequence[StateRow]
    records: Sequence[Record]
    erasures: int = 0
    """How many transactions of the database had erased records when this was written."""


class StoredContent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The same, as it is read from a file."""

    states: list[tuple[int, str, int | None, msgspec.Raw]]
    records: list[Record]
    erasures: int = 0


class Position(NamedTuple):
    """What a database holds of its journal: all batches up to `folded`, and so many transactions that erased."""

    store_id: bytes
    folded: int
    erasures: int


class Batch(NamedTuple):
    number: int
    content: Content | StoredContent


encode_content = msgspec.msgpack.Encoder().encode
decode_content = msgspec.msgpack.Decoder(StoredContent).decode


class JournalFile:
    """A file of the journal on the real disk."""

    def __init__(self, path: Path) -> None:
        created = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        make_private(path)
        self.direct = open_direct(path)
        """The file for direct writes; None if its file system has none."""
        if created:
            sync_path(path.parent)

    def write(self, pieces: list[bytes], offset: int) -> None:
        """Write at a position. The data is durable when this returns."""
        size = sum(map(len, pieces))
        written = write_durably(self._file, pieces, offset)
        while written < size:  # a signal or a nearly full disk may interrupt a write
            rest = memoryview(b"".join(pieces))[written:]
            written += write_durably(self._file, [rest], offset + written)

    def cut(self, size: int) -> None:
        """Make the file shorter, durably."""
        os.ftruncate(self._file, size)
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
        if self.direct is not None:
            os.close(self.direct)


def write_durably(file: int, pieces: Sequence[Any], offset: int) -> int:
    """Write and sync, in one call where the system can do that. Returns how much was written."""
    if hasattr(os, "RWF_DSYNC"):
        try:
            return os.pwritev(file, pieces, offset, os.RWF_DSYNC)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise
    written = os.pwritev(file, pieces, offset)
    getattr(os, "fdatasync", os.fsync)(file)
    return written


def sync_path(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class Disk:
    """How a store reaches its files, and on which threads. Tests replace it by a disk that fails."""

    vfs: str | None = None
    """The name of SQLite's VFS; None for the usual one."""

    def open_journal(self, path: Path) -> JournalFile:
        return JournalFile(path)

    def open_direct_writer(self) -> DirectWriter | None:
        """Return what writes without a thread on the running event loop; None if the system has no such thing."""
        try:
            return DirectWriter()
        except OSError:
            return None

    def make_writer(self, name: str) -> WriterThread:
        """Return what runs the jobs that write, off the event loop."""
        return WriterThread(name)


REAL_DISK: Final = Disk()


class Journal:
    """Appends batches, one at a time. `folded` may be set meanwhile."""

    def __init__(self, directory: Path, store_id: bytes, last: int, disk: Disk) -> None:
        """`last` is the number of the last batch. The database holds it, and all before it."""
        self.folded = last
        """The last batch that the database holds durably."""
        self.writer: DirectWriter | None = None
        """What writes without a thread."""
        self._last = last
        self._id = store_id
        self._files = [disk.open_journal(directory / name) for name in NAMES]
        self._sizes = [0, 0]
        """How much of each file has been written before. Beyond that it would have to grow."""
        self._ends = [0, 0]
        self._lasts = [0, 0]
        self._current = 0

    def append(self, content: bytes) -> int:
        """Make content durable as the next batch, and return its number.

        If the disk is full, it raises an OSError and nothing was appended. After any other error, what the file holds
        is uncertain, and nothing more may be appended.
        """
        number, header = self._next(content)
        size = HEADER.size + len(content)
        current, offset, end = self._find_place(size)
        padded = end if end <= self._sizes[current] else end + limits.JOURNAL_STEP_BYTES
        try:
            self._files[current].write([header, content, bytes(padded - offset - size)], offset)
        except OSError as error:
            if error.errno in NO_SPACE:
                self._files[current].cut(offset)  # or a complete batch might be found there after a crash
                self._sizes[current] = offset
            raise
        self._sizes[current] = max(padded, self._sizes[current])
        self._note(current, end, number)
        return number

    async def append_directly(self, content: bytes) -> int | None:
        """Do the same without a thread. Returns None, and appends nothing, if that is not possible."""
        writer, size = self.writer, HEADER.size + len(content)
        if writer is None or size > limits.DIRECT_WRITE_BYTES_MAX:
            return None
        current, offset, end = self._find_place(size)
        file = self._files[current]
        if file.direct is None or end > self._sizes[current]:
            return None
        number, header = self._next(content)
        try:
            await writer.write(file, [header, content], offset)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                self._stop_direct_writes()
            elif error.errno not in NO_SPACE:
                raise
            return None
        if writer.blocks:
            self._stop_direct_writes()
        self._note(current, end, number)
        return number

    def _stop_direct_writes(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def _next(self, content: bytes) -> tuple[int, bytes]:
        """Return the number and the header of the next batch."""
        number = self._last + 1
        return number, make_header(self._id, number, content)

    def _note(self, current: int, end: int, number: int) -> None:
        self._current = current
        self._ends[current] = end
        self._lasts[current] = self._last = number

    def _find_place(self, size: int) -> tuple[int, int, int]:
        """Return the file of the next batch, where it begins and where it ends: at whole blocks.

        A file is used from its beginning again as soon as the database holds all of its batches, and so it stays small.
        """
        current, other, offset = self._current, 1 - self._current, 0
        if self._lasts[current] > self.folded:
            if self._lasts[other] <= self.folded:
                current = other
            else:
                offset = self._ends[current]
        return current, offset, offset + whole_blocks(size)

    def close(self) -> None:
        self._stop_direct_writes()
        for file in self._files:
            file.close()


def make_header(store_id: bytes, number: int, content: bytes) -> bytes:
    """Return the header of a batch. The second checksum confirms that a bit was corrected by means of the first."""
    prefix = PREFIX.pack(store_id, number, len(content))
    return prefix + CHECKSUMS.pack(crc32(content, crc32(prefix)), adler32(content, adler32(prefix)))


class Found(NamedTuple):
    """A batch as it was found in a file of the journal."""

    number: int
    store_id: bytes
    content: bytes


def read_journal(directory: Path) -> list[Found]:
    """Return the complete batches in the journal of a store, even while its server writes to it.

    A batch that was being written when the server or its power failed is not there: nobody was told that it is stored.
    To miss nothing, read the journal before the database.
    """
    found: dict[tuple[bytes, int], Found] = {}
    for batch in read_files(directory):
        found.setdefault((batch.store_id, batch.number), batch)
    last = max((number for _, number in found), default=0)
    # A batch up to the last one that the first read has missed was in its file before the second read.
    for batch in read_files(directory):
        if batch.number <= last:
            found.setdefault((batch.store_id, batch.number), batch)
    return sorted(found.values())


def read_files(directory: Path) -> Iterator[Found]:
    for name in NAMES:
        yield from read_file(directory / name)


def choose_unfolded(found: Sequence[Found], position: Position) -> list[Batch]:
    """Return the batches that a database does not hold yet. Raises an error if something is missing."""
    batches = [
        Batch(batch.number, decode_content(batch.content)) for batch in found if batch.store_id == position.store_id
    ]
    chosen = [batch for batch in batches if batch.number > position.folded]
    for expected, batch in enumerate(chosen, start=position.folded + 1):
        if batch.number != expected:
            raise StoreUnusable(
                f"the journal or the write-ahead log is damaged: batch {expected} is missing, although there are later "
                "ones; restore a backup with `mainstem restore`"
            )
    if any(batch.content.erasures > position.erasures for batch in batches):
        raise StoreUnusable(
            "the write-ahead log is damaged: data that was erased is there again; restore a backup with `mainstem "
            "restore`"
        )
    return chosen


def read_file(path: Path) -> Iterator[Found]:
    """Yield every complete batch in a file, even those after damage or of an earlier use of the file."""
    try:
        data = memoryview(path.read_bytes())
    except FileNotFoundError:
        return
    at = 0
    expected = True
    previous: Found | None = None
    while at + HEADER.size <= len(data):
        header, rest = bytes(data[at : at + HEADER.size]), data[at + HEADER.size :]
        found = read_batch(header, rest)
        if found is None and expected:
            found = correct_batch(header, rest, previous)
            if found is not None:
                logger.warning("one bit of batch %d in the journal had changed and was corrected", found.number)
        if found is not None:
            yield found
        expected, previous = found is not None, found
        at += BLOCK_BYTES if found is None else whole_blocks(HEADER.size + len(found.content))


def read_batch(header: bytes, rest: memoryview) -> Found | None:
    """Return the batch with this header; None if the header or the content that follows is not intact."""
    store_id, number, size, *_ = HEADER.unpack(header)
    content = bytes(rest[:size])
    if number == 0 or len(content) != size or header != make_header(store_id, number, content):
        return None
    return Found(number, store_id, content)


def correct_batch(header: bytes, rest: memoryview, previous: Found | None) -> Found | None:
    """Return the batch after another one, if it is intact but for one bit."""

    def may_follow(header: bytes) -> bool:
        store_id, number, *_ = HEADER.unpack(header)
        return previous is None or (store_id, number) == (previous.store_id, previous.number + 1)

    for bit in range(8 * HEADER.size):
        flipped = flip_bit(header, bit)
        if may_follow(flipped) and (found := read_batch(flipped, rest)) is not None:
            return found
    _, _, size, crc, _ = HEADER.unpack(header)
    if size > len(rest) or not may_follow(header):
        return None
    content = bytes(rest[:size])
    flipped_bit = find_flipped_bit(crc32(content, crc32(header[: PREFIX.size])) ^ crc, size)
    return None if flipped_bit is None else read_batch(header, memoryview(flip_bit(content, flipped_bit)))


def remove_journal(directory: Path) -> None:
    for name in NAMES:
        (directory / name).unlink(missing_ok=True)
