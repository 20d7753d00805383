"""The journal: its files, which are used again and again, and what is found in them after a crash."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from mainstem import limits
from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite.bit_flips import flip_bit
from mainstem.log.store.sqlite.direct import BLOCK_BYTES
from mainstem.log.store.sqlite.journal import (
    HEADER,
    NAMES,
    REAL_DISK,
    Content,
    Found,
    Journal,
    JournalFile,
    Position,
    choose_unfolded,
    encode_content,
    read_file,
    read_files,
    read_journal,
)
from mainstem.testing.disk import FaultyDisk

STORE = b"01234567"


def content(number: int, size: int = 100) -> bytes:
    return encode_content(Content([(1, f"{number:03d}", None, msgspec.Raw(msgspec.msgpack.encode(bytes(size))))], []))


def read_numbers(path: Path) -> list[int]:
    return [found.number for found in read_file(path)]


def numbers(directory: Path) -> list[int]:
    return [found.number for found in read_journal(directory)]


def fill(journal: Journal, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert journal.append(content(number)) == number


def test_a_batch_is_found_as_it_was_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 41, REAL_DISK)
    fill(journal, 42, 44)
    found = choose_unfolded(read_journal(tmp_path), Position(STORE, 42, 0))
    assert [(batch.number, batch.content.states[0][1]) for batch in found] == [(43, "043"), (44, "044")]
    journal.close()


def sizes(directory: Path) -> list[int]:
    return [(directory / name).stat().st_size for name in NAMES]


def test_a_folded_file_is_used_from_its_beginning_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 5)
    before = sizes(tmp_path)
    journal.folded = 5
    fill(journal, 6, 8)
    assert numbers(tmp_path) == [3, 4, 5, 6, 7, 8]  # what is left of the earlier use is of no significance
    fill(journal, 9, 10)
    assert numbers(tmp_path) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert sizes(tmp_path) == before
    journal.close()


def test_new_batches_go_to_the_other_file_as_soon_as_that_is_folded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 3)
    assert (read_numbers(tmp_path / NAMES[0]), read_numbers(tmp_path / NAMES[1])) == ([1], [2, 3])
    journal.folded = 2
    fill(journal, 4, 5)
    assert (read_numbers(tmp_path / NAMES[0]), read_numbers(tmp_path / NAMES[1])) == ([4, 5], [2, 3])
    journal.folded = 4
    fill(journal, 6, 6)
    assert (read_numbers(tmp_path / NAMES[0]), read_numbers(tmp_path / NAMES[1])) == ([4, 5], [6, 3])
    journal.close()


def test_a_file_grows_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_STEP_BYTES", 8 * BLOCK_BYTES)
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 2)
    assert sizes(tmp_path) == [9 * BLOCK_BYTES, 9 * BLOCK_BYTES]
    fill(journal, 3, 10)
    assert sizes(tmp_path) == [9 * BLOCK_BYTES, 9 * BLOCK_BYTES]
    fill(journal, 11, 11)
    assert sizes(tmp_path) == [9 * BLOCK_BYTES, 18 * BLOCK_BYTES]
    assert numbers(tmp_path) == list(range(1, 12))
    journal.close()


@pytest.mark.parametrize("behind", [0, 1, 4, 7])
def test_what_is_not_folded_is_found_after_every_append(tmp_path: Path, behind: int) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    for number in range(1, 60):
        journal.append(content(number, size=number * 1_300 % 15_000))
        found = choose_unfolded(read_journal(tmp_path), Position(STORE, journal.folded, 0))
        assert [batch.number for batch in found] == list(range(journal.folded + 1, number + 1))
        journal.folded = max(0, number - behind)
    journal.close()


def test_a_batch_that_is_missing_in_the_middle_is_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 4)
    journal.folded = 1
    fill(journal, 5, 6)
    journal.close()
    path = tmp_path / NAMES[1]
    damaged = bytearray(path.read_bytes())
    damaged[2 * BLOCK_BYTES + HEADER.size + 5] ^= 3  # the third batch of this file
    path.write_bytes(damaged)
    assert numbers(tmp_path) == [2, 3, 5, 6]
    with pytest.raises(StoreUnusable, match="batch 4 is missing"):
        choose_unfolded(read_journal(tmp_path), Position(STORE, 1, 0))
    assert [batch.number for batch in choose_unfolded(read_journal(tmp_path), Position(STORE, 4, 0))] == [5, 6]


def test_an_erasure_that_the_database_lacks_is_an_error(tmp_path: Path) -> None:
    """SQLite has undone it because of damage to its write-ahead log. Even a batch that is folded shows that."""
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    journal.append(encode_content(Content([], [], erasures=2)))
    journal.close()
    assert len(choose_unfolded(read_journal(tmp_path), Position(STORE, 0, 2))) == 1
    with pytest.raises(StoreUnusable, match="erased is there again"):
        choose_unfolded(read_journal(tmp_path), Position(STORE, 1, 1))


def test_a_flipped_bit_anywhere_in_the_last_batch_is_corrected(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 3)
    journal.close()
    path = tmp_path / NAMES[1]
    intact = path.read_bytes()
    unchanged = [Found(3, STORE, content(3))]
    for bit in range(8 * (HEADER.size + len(content(3)))):
        path.write_bytes(intact[:BLOCK_BYTES] + flip_bit(intact[BLOCK_BYTES:], bit))
        assert [found for found in read_journal(tmp_path) if found.number > 2] == unchanged


@pytest.mark.parametrize("written", range(0, 2 * BLOCK_BYTES, 512))
def test_a_batch_that_was_written_in_part_is_not_found(tmp_path: Path, written: int) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 2)
    before = (tmp_path / NAMES[1]).read_bytes()
    assert journal.append(content(3, size=2 * BLOCK_BYTES)) == 3
    journal.close()
    after = (tmp_path / NAMES[1]).read_bytes()
    torn = before[:BLOCK_BYTES] + after[BLOCK_BYTES : BLOCK_BYTES + written] + before[BLOCK_BYTES + written :]
    (tmp_path / NAMES[1]).write_bytes(torn)
    assert numbers(tmp_path) == [1, 2]


def test_what_is_written_while_the_journal_is_read_causes_no_gap(tmp_path: Path) -> None:
    """A batch that reaches its file after that was read, and the next one in the other file before that is read."""
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 2)
    files = read_files(tmp_path)
    assert next(files).number == 1
    journal.folded = 1
    fill(journal, 3, 3)
    journal.folded = 2
    fill(journal, 4, 4)
    assert [batch.number for batch in files] == [4], "the test needs a batch that is missed"
    assert numbers(tmp_path) == [3, 4]
    journal.close()


def test_batches_of_another_store_are_ignored(tmp_path: Path) -> None:
    other = Journal(tmp_path, b"another!", 0, REAL_DISK)
    fill(other, 1, 3)
    other.close()
    assert choose_unfolded(read_journal(tmp_path), Position(STORE, 0, 0)) == []
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 1)
    assert [batch.number for batch in choose_unfolded(read_journal(tmp_path), Position(STORE, 0, 0))] == [1]
    journal.close()


@pytest.mark.parametrize("after_writes", [0, 1])
def test_a_full_disk_leaves_no_part_of_a_batch(tmp_path: Path, disk: FaultyDisk, after_writes: int) -> None:
    journal = Journal(tmp_path, STORE, 0, disk)
    fill(journal, 1, 2)
    disk.fill_up(after_writes=after_writes)
    with pytest.raises(OSError, match="No space"):
        journal.append(content(3))
    disk.lose_power(tmp_path / "found")
    assert numbers(tmp_path) == numbers(tmp_path / "found") == [1, 2]
    disk.heal()
    fill(journal, 3, 4)
    assert numbers(tmp_path) == [1, 2, 3, 4]
    journal.close()


def test_an_interrupted_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev

    def write_some(file: int, pieces: list[bytes], offset: int, flags: int = 0) -> int:
        return whole(file, [b"".join(pieces)[:7]], offset, flags)

    monkeypatch.setattr(os, "pwritev", write_some)
    file = JournalFile(tmp_path / "file")
    file.write([b"0123456789", b"abcdefghij"], 3)
    assert (tmp_path / "file").read_bytes() == bytes(3) + b"0123456789abcdefghij"
    file.close()


def test_a_system_that_cannot_sync_while_it_writes_syncs_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pwritev
    synced: list[int] = []

    def refuse_flags(file: int, pieces: list[bytes], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return whole(file, pieces, offset)

    monkeypatch.setattr(os, "pwritev", refuse_flags)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = JournalFile(tmp_path / "file")
    file.write([b"data"], 0)
    assert (tmp_path / "file").read_bytes() == b"data"
    assert len(synced) == 1
    file.close()
