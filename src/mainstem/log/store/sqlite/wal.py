"""SQLite's write-ahead log (WAL), as a server that did not stop in an orderly way has left it: is all of it intact?

SQLite reads a WAL up to the first frame whose sums are wrong and ignores the rest, because the last transaction may be
incomplete. But if that frame is damaged, transactions that were durable would be undone, or mixed with what a
checkpoint has already moved to the database. So the frames that SQLite ignores are examined here.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite.bit_flips import Sums, compute_sums, differ_in_one_bit, flip_bit
from mainstem.log.store.sqlite.errors import WAY_OUT

MAGIC: Final = 0x377F0682
"""If the lowest bit is set too, the words that are summed have their highest byte first."""
HEADER: Final = struct.Struct(">4I8s2I")
"""Magic number, version, page size, number of checkpoints, salts, sums."""
HEADER_SUMMED_BYTES: Final = 24
FRAME_HEADER: Final = struct.Struct(">2I8s2I")
"""Page number, size of the database if the frame ends a transaction (otherwise 0), salts, sums."""
FRAME_SUMMED_BYTES: Final = 8
"""The sums of a frame cover this much of its header, and then its page."""


def require_intact_wal(database: Path, vfs: str | None) -> None:
    """Raise an error if the WAL of a database that nobody has open is damaged. It may end with an unfinished write."""
    path = database.with_name(database.name + "-wal")
    if not path.exists():
        return
    data = path.read_bytes()
    header = read_header(data[: HEADER.size])
    if header is None:
        if any(read_header(flip_bit(data[: HEADER.size], bit)) for bit in range(8 * min(len(data), HEADER.size))):
            raise StoreUnusable(f"the header of the write-ahead log is damaged; {WAY_OUT}")
        return
    size = FRAME_HEADER.size + header.page_bytes
    frames = [data[at : at + size] for at in range(HEADER.size, len(data) - size + 1, size)]
    damaged = find_damage(header, frames, count_frames(database, vfs))
    if damaged is not None:
        raise StoreUnusable(f"frame {damaged} of the write-ahead log is damaged; {WAY_OUT}")


def count_frames(database: Path, vfs: str | None) -> int:
    """Return how many frames of its WAL SQLite accepts."""
    db = apsw.Connection(str(database), vfs=vfs)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.pragma("schema_version")  # the first read makes SQLite look at the WAL
        frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    finally:
        db.close()
    return frames


class Header(NamedTuple):
    """The header of a WAL. Its frames have its salts; frames of an earlier use have others."""

    page_bytes: int
    salts: bytes
    order: str
    sums: Sums


def read_header(data: bytes) -> Header | None:
    """Return the header of a WAL; None if it is not intact."""
    if len(data) < HEADER.size:
        return None
    magic, _, page_bytes, _, salts, first, second = HEADER.unpack(data)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != MAGIC or compute_sums(data[:HEADER_SUMMED_BYTES], order) != (first, second):
        return None
    return Header(page_bytes, salts, order, (first, second))


def find_damage(header: Header, frames: list[bytes], accepted: int) -> int | None:
    """Return the number of the first damaged frame after those that SQLite accepts; None if there is none.

    A frame of an unfinished transaction may be invalid too. But it differs from a valid one in more than one bit, and
    no later transaction follows it: a transaction begins when the one before it is durable.
    """
    before = read_sums(frames[accepted - 1]) if accepted else header.sums
    for number, frame in enumerate(frames[accepted:], start=accepted + 1):
        if not is_valid(frame, header, before):
            later = sum(ends_transaction(frame, header) for frame in frames[number:])
            return number if later > 1 or has_flipped_bit(frame, header, before) else None
        before = read_sums(frame)
    return None


def read_sums(frame: bytes) -> Sums:
    _, _, _, first, second = FRAME_HEADER.unpack_from(frame)
    return first, second


def ends_transaction(frame: bytes, header: Header) -> bool:
    _, database_pages, salts, _, _ = FRAME_HEADER.unpack_from(frame)
    return bool(database_pages > 0 and salts == header.salts)


def is_valid(frame: bytes, header: Header, before: Sums) -> bool:
    """Return whether a frame has the salts of its WAL, and sums that continue those of the frame before it."""
    return has_salts(frame, header) and compute_sums(_summed(frame), header.order, before) == read_sums(frame)


def has_salts(frame: bytes, header: Header) -> bool:
    return bool(FRAME_HEADER.unpack_from(frame)[2] == header.salts)


def _summed(frame: bytes) -> bytes:
    return frame[:FRAME_SUMMED_BYTES] + frame[FRAME_HEADER.size :]


def has_flipped_bit(frame: bytes, header: Header, before: Sums) -> bool:
    """Return whether a frame would be valid if one of its bits were flipped."""
    if has_salts(frame, header) and differ_in_one_bit(_summed(frame), header.order, before, read_sums(frame)):
        return True
    unsummed = range(8 * FRAME_SUMMED_BYTES, 8 * FRAME_HEADER.size)
    return any(is_valid(flip_bit(frame, bit), header, before) for bit in unsummed)
