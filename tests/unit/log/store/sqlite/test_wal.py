"""The write-ahead log that a crash leaves: unfinished writes are normal, damage is an error."""

import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite.bit_flips import flip_bit
from mainstem.log.store.sqlite.connections import PAGE_BYTES, STORE_NAME, open_reader, open_writer
from mainstem.log.store.sqlite.wal import FRAME_HEADER, HEADER, require_intact_wal

FRAME_BYTES = FRAME_HEADER.size + PAGE_BYTES
TRANSACTIONS = 4
ROWS = 150


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database whose process ended without closing it, after a checkpoint in the middle of its transactions."""
    original = tmp_path / "original" / STORE_NAME
    original.parent.mkdir()
    db = open_writer(original, None)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)")
    for transaction in range(TRANSACTIONS):
        with db:
            db.executemany("INSERT INTO a VALUES (?, randomblob(100))", [(number,) for number in rows(transaction)])
            db.execute("UPDATE a SET data = randomblob(100) WHERE id % 20 = 0")
        if transaction == 1:
            reader = open_reader(original, None)  # it keeps SQLite from beginning the WAL again
            reader.execute("BEGIN; SELECT count(*) FROM a").fetchall()
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in (STORE_NAME, STORE_NAME + "-wal"):
        shutil.copyfile(original.with_name(file), crashed / file)
    reader.close()
    db.close()
    return crashed / STORE_NAME


def rows(transaction: int) -> range:
    return range(transaction * ROWS, (transaction + 1) * ROWS)


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def read(path: Path) -> list[tuple[Any, ...]]:
    """Return all rows, and leave the files as they are."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        return db.execute("SELECT id, data FROM a ORDER BY id").fetchall()
    finally:
        db.close()


def test_an_intact_wal_is_accepted(path: Path) -> None:
    before = wal_of(path).read_bytes()
    require_intact_wal(path, None)
    assert [number for number, _ in read(path)] == list(range(TRANSACTIONS * ROWS))
    assert wal_of(path).read_bytes() == before


def test_a_database_without_a_wal_is_accepted(path: Path) -> None:
    wal_of(path).unlink()
    require_intact_wal(path, None)


def test_a_flipped_bit_is_an_error_or_has_no_effect(path: Path) -> None:
    intact, expected = wal_of(path).read_bytes(), read(path)
    chance = random.Random(1)
    bits = [*range(8 * (HEADER.size + FRAME_HEADER.size)), *(chance.randrange(8 * len(intact)) for _ in range(200))]
    found = 0
    for bit in bits:
        wal_of(path).write_bytes(flip_bit(intact, bit))
        try:
            require_intact_wal(path, None)
        except StoreUnusable:
            found += 1
        else:
            assert read(path) == expected, f"bit {bit}"
    assert found > 0.9 * len(bits)


@pytest.mark.parametrize("lost", ["the rest", "one frame"])
def test_an_unfinished_transaction_is_accepted(path: Path, lost: str) -> None:
    """Each frame of the last transaction in turn is lost, alone or with all that follow it."""
    intact = wal_of(path).read_bytes()
    frames = (len(intact) - HEADER.size) // FRAME_BYTES
    last = [n for n in range(frames) if FRAME_HEADER.unpack_from(intact, HEADER.size + n * FRAME_BYTES)[1]][-2] + 1
    assert last < frames - 1
    for number in range(last, frames):
        at = HEADER.size + number * FRAME_BYTES
        until = len(intact) if lost == "the rest" else at + FRAME_BYTES
        wal_of(path).write_bytes(intact[:at] + bytes(until - at) + intact[until:])
        require_intact_wal(path, None)
        assert [row for row, _ in read(path)] == list(range((TRANSACTIONS - 1) * ROWS))


def test_a_lost_frame_before_the_last_transaction_is_an_error(path: Path) -> None:
    intact = wal_of(path).read_bytes()
    wal_of(path).write_bytes(intact[: HEADER.size] + bytes(FRAME_BYTES) + intact[HEADER.size + FRAME_BYTES :])
    with pytest.raises(StoreUnusable, match="frame 1 of the write-ahead log is damaged"):
        require_intact_wal(path, None)
