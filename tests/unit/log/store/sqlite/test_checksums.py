"""The checksum in each page of the database."""

import os
from pathlib import Path

import apsw
import pytest

from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite.bit_flips import flip_bit
from mainstem.log.store.sqlite.checksums import add_checksums, find_damaged_pages, is_intact
from mainstem.log.store.sqlite.connections import (
    PAGE_BYTES,
    RESERVED_AT,
    STORE_NAME,
    open_reader,
    open_writer,
    require_known_format,
)
from mainstem.log.store.sqlite.errors import is_damage

ROWS = 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with pages of many kinds, all of them in its file."""
    path = tmp_path / STORE_NAME
    db = open_writer(path, None)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)")
    with db:
        db.executemany("INSERT INTO a VALUES (?, zeroblob(150))", [(number,) for number in range(ROWS)])
    db.close()
    return path


def read_pages(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]


def test_every_page_has_a_checksum(path: Path) -> None:
    pages = read_pages(path)
    assert len(pages) > 5
    assert all(is_intact(page) for page in pages)


def test_a_large_database_without_checksums_gets_them(tmp_path: Path) -> None:
    """It is larger than the cache, so pages are written before the header that announces the checksums."""
    path = tmp_path / STORE_NAME
    rows = [(number, os.urandom(3_000)) for number in range(2_000)]
    db = apsw.Connection(str(path))
    db.pragma("page_size", PAGE_BYTES)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)")
    with db:
        db.executemany("INSERT INTO a VALUES (?, ?)", rows)
    db.close()
    add_checksums(path)
    pages = read_pages(path)
    assert len(pages) > 700
    assert list(find_damaged_pages(path, len(pages), PAGE_BYTES)) == []
    db = open_reader(path, None)
    assert db.execute("SELECT id, data FROM a ORDER BY id").fetchall() == rows
    db.close()


def test_a_page_with_a_flipped_bit_cannot_be_read_and_others_can(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(flip_bit(data, 8 * (len(data) - 5_000)))
    db = open_reader(path, None)
    assert db.execute("SELECT id FROM a WHERE id = 0").get == 0
    with pytest.raises(apsw.IOError) as failure:
        db.execute("SELECT sum(length(data)) FROM a").fetchall()
    assert is_damage(failure.value)
    db.close()


@pytest.mark.parametrize("bit", [0, 1, 7, 800, 65_000, 8 * (PAGE_BYTES - 8), 8 * PAGE_BYTES - 1])
def test_a_page_with_a_flipped_bit_is_not_intact(path: Path, bit: int) -> None:
    assert not is_intact(flip_bit(read_pages(path)[2], bit))


@pytest.mark.parametrize("bit", range(8))
def test_a_header_that_denies_the_checksums_is_refused(path: Path, bit: int) -> None:
    require_known_format(path)
    path.write_bytes(flip_bit(path.read_bytes(), 8 * RESERVED_AT + bit))
    with pytest.raises(StoreUnusable, match="header is wrong"):
        require_known_format(path)


def test_a_database_without_checksums_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / STORE_NAME
    db = apsw.Connection(str(path))
    db.pragma("page_size", PAGE_BYTES)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    db.close()
    require_known_format(path)
    require_known_format(tmp_path / "none")
