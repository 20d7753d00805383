"""The journal: its files, which are used again and again, and what is found in them after a crash."""

import errno
import os
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite.journal import (
    HEADER,
    NAMES,
    REAL_DISK,
    Content,
    Journal,
    JournalFile,
    choose_unfolded,
    encode_content,
    read_journal,
)
from mainstem.testing.disk import FaultyDisk

STORE = b"01234567"


def content(number: int, size: int = 100) -> bytes:
    return encode_content(Content([(1, f"{number:03d}", None, bytes(size))], []))


def numbers(directory: Path) -> list[int]:
    return [found.number for found in read_journal(directory)]


def fill(journal: Journal, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert journal.append(content(number)) == number


def test_a_batch_is_found_as_it_was_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 41, REAL_DISK)
    fill(journal, 42, 44)
    found = choose_unfolded(read_journal(tmp_path), STORE, 42)
    assert [(batch.number, batch.content.states[0][1]) for batch in found] == [(43, "043"), (44, "044")]
    journal.close()


def test_a_folded_file_is_used_from_its_beginning_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 5)
    size = (tmp_path / NAMES[0]).stat().st_size
    journal.folded = 5
    fill(journal, 6, 8)
    assert numbers(tmp_path) == [6, 7, 8]
    fill(journal, 9, 10)
    assert numbers(tmp_path) == [6, 7, 8, 9, 10]
    assert (tmp_path / NAMES[0]).stat().st_size == size
    assert (tmp_path / NAMES[1]).stat().st_size == 0
    journal.close()


def test_the_second_file_is_used_when_the_first_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_FILE_BYTES", 5 * (HEADER.size + len(content(1))))
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 7)
    assert [path.stat().st_size > 0 for path in (tmp_path / NAMES[0], tmp_path / NAMES[1])] == [True, True]
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7]
    journal.folded = 5
    fill(journal, 8, 12)
    assert numbers(tmp_path) == [6, 7, 8, 9, 10, 11, 12]
    assert [batch.number for batch in choose_unfolded(read_journal(tmp_path), STORE, 9)] == [10, 11, 12]
    journal.close()


def test_a_full_file_grows_while_the_other_one_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_FILE_BYTES", 5 * (HEADER.size + len(content(1))))
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 30)
    assert numbers(tmp_path) == list(range(1, 31))
    journal.close()


@pytest.mark.parametrize("file_batches", [3, 5, 50])
@pytest.mark.parametrize("behind", [0, 1, 4, 7])
def test_what_is_not_folded_is_found_after_every_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_batches: int, behind: int
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_FILE_BYTES", file_batches * (HEADER.size + len(content(1))))
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    for number in range(1, 60):
        journal.append(content(number, size=number * 13 % 150))
        found = choose_unfolded(read_journal(tmp_path), STORE, journal.folded)
        assert [batch.number for batch in found] == list(range(journal.folded + 1, number + 1))
        journal.folded = max(0, number - behind)
    journal.close()


def test_a_batch_that_is_missing_in_the_middle_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_FILE_BYTES", 3 * (HEADER.size + len(content(1))))
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 6)
    journal.close()
    path = tmp_path / NAMES[0]
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert numbers(tmp_path) == [1, 2, 4, 5, 6]
    with pytest.raises(StoreUnusable, match="batch 3 is missing"):
        choose_unfolded(read_journal(tmp_path), STORE, 0)
    assert [batch.number for batch in choose_unfolded(read_journal(tmp_path), STORE, 3)] == [4, 5, 6]


def test_batches_of_another_store_are_ignored(tmp_path: Path) -> None:
    other = Journal(tmp_path, b"another!", 0, REAL_DISK)
    fill(other, 1, 3)
    other.close()
    assert choose_unfolded(read_journal(tmp_path), STORE, 0) == []
    journal = Journal(tmp_path, STORE, 0, REAL_DISK)
    fill(journal, 1, 1)
    assert [batch.number for batch in choose_unfolded(read_journal(tmp_path), STORE, 0)] == [1]
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
