"""Writes without a thread, on the real disk, and what the journal does where they do not work."""

import asyncio
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mainstem import limits
from mainstem.log.store.sqlite import direct
from mainstem.log.store.sqlite.direct import BLOCK_BYTES, DirectFile, DirectWriter, whole_blocks
from mainstem.log.store.sqlite.journal import REAL_DISK, Disk, Journal, JournalFile, read_journal
from tests.support.requirements import miss

STORE = b"01234567"


@contextmanager
def direct_writer() -> Iterator[DirectWriter]:
    writer = REAL_DISK.open_direct_writer()
    if writer is None:
        miss("asynchronous I/O of the kernel", "run the tests on Linux, on x86-64 or ARM64")
    yield writer
    writer.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[JournalFile]:
    file = JournalFile(tmp_path / "file")
    if file.direct is None:
        miss("a file system with O_DIRECT", "set TMPDIR to a directory on a real disk")
    file.write([bytes(16 * BLOCK_BYTES)], 0)
    yield file
    file.close()


@pytest.mark.parametrize(("size", "blocks"), [(0, 0), (1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2)])
def test_whole_blocks_hold_every_byte(size: int, blocks: int) -> None:
    assert whole_blocks(size) == blocks * BLOCK_BYTES


async def test_what_is_written_is_in_the_file(file: JournalFile, tmp_path: Path) -> None:
    with direct_writer() as writer:
        await writer.write(file, [b"one", b"two"], 4 * BLOCK_BYTES)
        await writer.write(file, [b"x" * 5_000], 8 * BLOCK_BYTES)
        data = (tmp_path / "file").read_bytes()
        assert len(data) == 16 * BLOCK_BYTES
        assert data[: 4 * BLOCK_BYTES] == bytes(4 * BLOCK_BYTES)
        assert data[4 * BLOCK_BYTES :].startswith(b"onetwo")
        assert data[8 * BLOCK_BYTES :].startswith(b"x" * 5_000)


async def test_the_largest_write_is_whole(file: JournalFile, tmp_path: Path) -> None:
    with direct_writer() as writer:
        data = os.urandom(limits.DIRECT_WRITE_BYTES_MAX)
        file.write([bytes(len(data))], 0)
        await writer.write(file, [data], 0)
        assert (tmp_path / "file").read_bytes() == data


async def test_only_one_write_at_a_time(file: JournalFile) -> None:
    with direct_writer() as writer:
        first = writer.write(file, [b"first"], 0)
        with pytest.raises(OSError, match="not done"):
            writer.write(file, [b"second"], 0)
        await first
        await writer.write(file, [b"third"], 0)


async def test_a_write_whose_caller_has_left_is_finished_first(file: JournalFile) -> None:
    with direct_writer() as writer:
        writer.write(file, [b"first"], 0).cancel()
        with pytest.raises(OSError, match="not done"):
            writer.write(file, [b"second"], 0)


async def test_an_error_of_the_kernel_reaches_the_caller(file: JournalFile) -> None:
    with direct_writer() as writer:
        with pytest.raises(OSError, match="Invalid argument"):
            await writer.write(file, [b"data"], 100)  # not at a block
        await writer.write(file, [b"data"], 0)


# How the journal uses it


async def test_the_journal_writes_without_a_thread_what_does_not_make_it_longer(tmp_path: Path) -> None:
    with direct_writer() as writer:
        journal = Journal(tmp_path, STORE, 0, REAL_DISK)
        journal.writer = writer
        assert await journal.append_directly(b"first") is None
        assert journal.append(b"first") == 1
        assert await journal.append_directly(b"second") is None  # the other file is empty, too
        assert journal.append(b"second") == 2
        assert [await journal.append_directly(b"%d" % number) for number in (3, 4, 5)] == [3, 4, 5]
        assert await journal.append_directly(bytes(limits.DIRECT_WRITE_BYTES_MAX)) is None
        assert journal.append(b"sixth") == 6
        assert [found.content for found in read_journal(tmp_path)] == [b"first", b"second", b"3", b"4", b"5", b"sixth"]
        journal.writer = None
        journal.close()


class Broken(DirectWriter):
    """Fails with an error number, or blocks."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.closed = False

    @property
    def blocks(self) -> bool:
        return self.code is None

    def write(self, file: DirectFile, pieces: Sequence[bytes], offset: int) -> "asyncio.Future[None]":
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.code is None:
            assert isinstance(file, JournalFile)
            file.write(list(pieces), offset)
            outcome.set_result(None)
        else:
            outcome.set_exception(OSError(self.code, os.strerror(self.code)))
        return outcome

    def close(self) -> None:
        self.closed = True


def with_two_batches(directory: Path, writer: DirectWriter, disk: Disk = REAL_DISK) -> Journal:
    journal = Journal(directory, STORE, 0, disk)
    journal.append(b"first")
    journal.append(b"second")
    journal.writer = writer
    return journal


@pytest.mark.parametrize(
    ("code", "stops"), [(errno.EINVAL, True), (errno.EPERM, True), (errno.ENOSPC, False), (errno.EDQUOT, False)]
)
async def test_a_thread_writes_what_cannot_be_written_directly(
    tmp_path: Path, file: JournalFile, code: int, stops: bool
) -> None:
    writer = Broken(code)
    journal = with_two_batches(tmp_path, writer)
    assert await journal.append_directly(b"third") is None
    assert journal.append(b"third") == 3
    assert (journal.writer is None) == writer.closed == stops
    assert [found.content for found in read_journal(tmp_path)] == [b"first", b"second", b"third"]
    journal.close()


async def test_a_failed_write_is_an_error(tmp_path: Path, file: JournalFile) -> None:
    journal = with_two_batches(tmp_path, Broken(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        await journal.append_directly(b"third")
    journal.close()


async def test_a_file_system_that_blocks_the_event_loop_gets_a_thread(tmp_path: Path, file: JournalFile) -> None:
    writer = Broken(None)
    journal = with_two_batches(tmp_path, writer)
    assert await journal.append_directly(b"third") == 3
    assert writer.closed
    assert await journal.append_directly(b"fourth") is None
    assert journal.append(b"fourth") == 4
    journal.close()


@pytest.mark.parametrize(
    ("times_s", "blocks"),
    [
        ([0, 0.020, 0.021] * 16, True),
        ([0, 0.020, 0.021] * 15, False),
        ([0, 0.020, 0.021] * 15 + [0, 0.0001, 0.021] + [0, 0.020, 0.021], False),  # not in a row
        ([0, 0.0009, 0.001] * 16, False),  # too short to matter
        ([0, 0.009, 0.020] * 16, False),  # most of the work came later
    ],
)
async def test_writes_that_block_in_a_row_are_noticed(
    file: JournalFile, monkeypatch: pytest.MonkeyPatch, times_s: list[float], blocks: bool
) -> None:
    with direct_writer() as writer:
        clock = iter(times_s)
        monkeypatch.setattr(direct, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        for _ in range(len(times_s) // 3):
            await writer.write(file, [b"data"], 0)
        assert writer.blocks == blocks
