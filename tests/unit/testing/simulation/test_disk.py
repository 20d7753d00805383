import asyncio
import contextlib
from random import Random

import apsw
import pytest

from mainstem.testing.simulation.disk import PowerFailure, SimulatedDisk
from mainstem.testing.simulation.loop import Crash, VirtualClock, VirtualLoop

BLOCK = bytes(range(256)) * 16


@pytest.fixture
def loop():
    loop = VirtualLoop(VirtualClock(), Random(1))
    yield loop
    loop.close()


@pytest.fixture
def disk(loop, tmp_path):
    with SimulatedDisk(loop, tmp_path, {"journal-0": b"old"}) as disk:
        yield disk


def write_numbers(disk):
    """Store numbers until the power fails, and return the last one that was stored."""
    db = apsw.Connection(str(disk.directory / "test.db"), vfs=disk.vfs)
    stored = 0
    try:
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.execute("CREATE TABLE numbers (n)")
        for number in range(1, 6):
            db.execute("INSERT INTO numbers VALUES (?)", (number,))
            stored = number
        db.close()
    except apsw.Error:
        with contextlib.suppress(apsw.Error):
            db.close(force=True)
    return stored


def test_it_begins_with_the_files_that_are_left(disk):
    assert (disk.directory / "journal-0").read_bytes() == b"old"


def test_files_that_nobody_opens_stay(disk):
    assert disk.fail_power(Random(1)) == {"journal-0": b"old"}


def test_what_was_synced_survives_a_power_failure(disk):
    file = disk.open_journal(disk.directory / "journal-0")
    file.write([BLOCK], 0)
    assert all(disk.fail_power(Random(seed))["journal-0"] == BLOCK for seed in range(10))


def test_what_was_not_synced_survives_in_any_part(disk):
    file = disk.open_journal(disk.directory / "journal-0")
    file.write([BLOCK], 0)
    file.write_pieces([bytes(len(BLOCK))], 0)
    found = {disk.fail_power(Random(seed))["journal-0"] for seed in range(100)}
    assert {BLOCK, bytes(len(BLOCK))} < found
    for content in found:
        sectors = [content[at : at + 512] for at in range(0, len(content), 512)]
        assert all(sector in (BLOCK[:512], bytes(512)) for sector in sectors)


def test_a_failed_sync_is_not_made_up_for_later(disk):
    file = disk.open_journal(disk.directory / "journal-0")
    file.write([BLOCK], 0)
    left = set()
    for _ in range(50):
        disk.fail_syncs()
        with pytest.raises(OSError, match="Input/output"):
            file.write([bytes(len(BLOCK))], 0)
        disk.heal()
        file.sync()
        left.add(disk.images[str(disk.directory / "journal-0")].survive(Random(1)) == bytes(len(BLOCK)))
        file.write([BLOCK], 0)
    assert left == {True, False}


def test_a_database_survives_a_power_failure_at_every_operation(loop, tmp_path):
    for operation in range(1, 60):
        directory = tmp_path / str(operation)
        directory.mkdir()
        with SimulatedDisk(loop, directory, {}) as disk:
            disk.power_failure = PowerFailure(operation)
            stored = write_numbers(disk)
            left = disk.fail_power(Random(operation))
        again = directory / "again"
        again.mkdir()
        with SimulatedDisk(loop, again, left) as disk:
            db = apsw.Connection(str(again / "test.db"), vfs=disk.vfs)
            db.execute("CREATE TABLE IF NOT EXISTS numbers (n)")
            assert [n for (n,) in db.execute("SELECT n FROM numbers")] in (
                list(range(1, stored + 1)),
                list(range(1, stored + 2)),
            )
            db.close()


def test_a_full_disk_refuses_to_grow_files_only(disk):
    file = disk.open_journal(disk.directory / "journal-0")
    file.write([BLOCK], 0)
    disk.bytes_left = 0
    file.write([bytes(10)], 0)
    with pytest.raises(OSError, match="No space left"):
        file.write([bytes(10)], len(BLOCK))


def test_jobs_run_in_order_and_take_time(loop, disk):
    done: list[int] = []

    async def run():
        writer = disk.make_writer("writer")
        writer.post(done.append, 1)
        await writer.run(done.append, 2)

    loop.run_until_complete(run())
    assert done == [1, 2]
    assert loop.time() > 0


def test_a_power_failure_may_wait_for_a_large_write_to_one_file(loop, disk):
    journal, other = disk.open_journal(disk.directory / "journal-0"), disk.open_journal(disk.directory / "other")
    disk.power_failure = PowerFailure(2, "journal", 4096)
    for file, size in ((journal, 4096), (journal, 100), (other, 9000)):
        file.write([bytes(size)], 0)
    assert disk.has_power
    with pytest.raises(apsw.IOError):
        journal.write([bytes(5000)], 0)
    assert not disk.has_power


def test_a_direct_write_replaces_whole_blocks(loop, disk):
    journal = disk.open_journal(disk.directory / "journal-0")
    journal.write([b"x" * 8192], 0)
    loop.run_until_complete(disk.open_direct_writer().write(journal, [b"a", b"b"], 0))
    assert (disk.directory / "journal-0").read_bytes() == b"ab" + bytes(4094) + b"x" * 4096


def test_a_power_failure_within_a_job_ends_the_process(loop, disk):
    file = disk.open_journal(disk.directory / "journal-0")
    disk.power_failure = PowerFailure(1)

    async def run():
        await disk.make_writer("writer").run(file.write, [BLOCK], 0)

    loop.set_exception_handler(lambda loop, context: None)  # the task is destroyed
    with pytest.raises(Crash):
        loop.run_until_complete(run())


def test_a_direct_write_is_durable_when_its_future_is_done(loop, disk):
    file = disk.open_journal(disk.directory / "journal-0")
    image = disk.images[str(disk.directory / "journal-0")]

    async def write():
        writing = disk.open_direct_writer().write(file, [BLOCK], 0)
        await asyncio.sleep(0)
        before = bytes(image.synced)
        await writing
        return before

    assert loop.run_until_complete(write()) == b"old"
    assert image.synced == BLOCK
