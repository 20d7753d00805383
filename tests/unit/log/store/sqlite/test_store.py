"""The embedded store beyond the contract: its file, its lock, its journal, and failing disks."""

import asyncio
import errno
import os
import random
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import apsw
import pytest

from mainstem import limits
from mainstem.errors import StoreFailed, StoreFull, StoreLocked, StoreTooNew
from mainstem.log.commands import Key, State
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store import MemoryStore, SqliteStore
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.journal import REAL_DISK, Disk
from mainstem.log.store.sqlite.reserve import Reserve
from mainstem.log.store.sqlite.schema import STEPS, migrate
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.store_contract import COUNTS, MUCH, NOTES, Count, Note, Writing, count, note, read_whole_log


@asynccontextmanager
async def opened(directory: Path, disk: Disk = REAL_DISK) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(directory, disk)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def data(store: SqliteStore, topic: int = 1) -> bytes:
    chunk = await store.read(TopicId(topic), 0, MUCH, MUCH)
    return b"" if chunk is None else chunk.data


@pytest.fixture
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    migrate(db)
    return db


# Statements


@pytest.mark.parametrize("number", [0, 1, 7, 8, 9, 63, 64, 65, 71, 72, 73, 128, 137, 500])
def test_groups_of_rows_cover_every_row_once(db: apsw.Connection, number: int) -> None:
    changes: dict[Key, State | None] = {count(f"{n:04d}"): Count(n) for n in range(number)}
    queries.save_states(db, queries.list_states(changes))
    queries.save_states(db, queries.list_states({key: Count(n + 1) for n, key in enumerate(changes)}))
    found = queries.scan(db, COUNTS, "", "", MUCH)
    assert found == [(f"{n:04d}", Count(n + 1)) for n in range(number)]


@pytest.mark.parametrize("number", [1, 499, 500, 501, 1_001])
def test_loading_many_keys_in_parts_loses_none(db: apsw.Connection, number: int) -> None:
    states: dict[Key, State | None] = {count(str(n)): Count(n) for n in range(number)}
    queries.save_states(db, queries.list_states(states))
    assert queries.load(db, [*states, note("none")]) == {**states, note("none"): None}


def test_one_step_can_remove_some_states_and_save_others(db: apsw.Connection) -> None:
    queries.save_states(db, queries.list_states({note("a"): Note("a", 1), note("b"): Note("b", 2)}))
    queries.save_states(db, queries.list_states({note("a"): None, note("c"): Note("c", 3), note("b"): Note("b")}))
    assert [name for name, _ in queries.scan(db, NOTES, "", "", 10)] == ["b", "c"]
    assert queries.due(db, NOTES, 10, 10) == [(3, "c")]


def test_reads_and_erases_use_the_index(db: apsw.Connection) -> None:
    """With a plan that scans the table, every read would get slower as the log grows."""
    outlines = [(queries.OUTLINE.format(order=order), (1, 0, 10, 10)) for order in ("ASC", "DESC")]
    parts = [(part, (1, 0, 10, 10)) for part in queries.READS]
    for statement, values in [*parts, (queries.READ_ONE, (1, 0, 10)), (queries.BACKWARDS, (1,)), *outlines]:
        plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + statement, values)]
        tables = [step for step in plan if step.startswith("SEARCH ")]
        assert len(tables) in (2, 4), plan
        assert all("USING PRIMARY KEY (topic=?" in step for step in tables[::2]), plan
        assert all("SEARCH records USING INTEGER PRIMARY KEY (rowid=?)" in step for step in tables[1::2]), plan
        assert not any("TEMP B-TREE" in step or step.startswith(("SCAN records", "SCAN place")) for step in plan), plan


def test_erasing_records_does_not_lower_the_head(db: apsw.Connection) -> None:
    assert queries.head(db) == 0
    records = [Record(CommittedId(n), 0, Kind.APPEND, TopicId(1), n, n + 1, 1, b"x") for n in (1, 2)]
    queries.insert_records(db, records)
    queries.index_appends(db, records)
    assert queries.head(db) == 2
    queries.keep_head(db)
    queries.merge_append_index(db)
    assert queries.erase(db, TopicId(1), MUCH, 10) == 2
    assert queries.head(db) == 2
    queries.keep_head(db)
    assert queries.head(db) == 2


async def test_lists_of_states_combine_the_journal_with_the_database(tmp_path: Path) -> None:
    """A few saves with folding between some of them; the store in memory says what every list must hold."""
    chance = random.Random(1)
    expected = MemoryStore()
    async with opened(tmp_path) as store:
        for _ in range(300):
            if chance.random() < 0.1:
                await store.fold()
            changes: dict[Key, State | None] = {
                note(f"{chance.choice('ab')}{chance.randrange(20)}"): chance.choice([None, Note(), Note("x", n)])
                for n in range(1, chance.randrange(2, 6))
            }
            await store.save(changes, [], CommittedId(0))
            await expected.save(changes, [], CommittedId(0))
            page = chance.choice(["", "a", "b1"]), chance.choice(["", "a1", "b"]), chance.randrange(1, 12)
            assert await store.scan(NOTES, *page) == await expected.scan(NOTES, *page)
            due = chance.randrange(6), chance.randrange(1, 12)
            assert await store.due(NOTES, *due) == await expected.due(NOTES, *due)


# The file


def test_the_tables_are_created_once(db: apsw.Connection) -> None:
    migrate(db)
    assert db.pragma("user_version") == len(STEPS)


async def test_a_file_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    newer = apsw.Connection(str(tmp_path / "mainstem.db"))
    newer.pragma("user_version", len(STEPS) + 1)
    newer.close()
    with pytest.raises(StoreTooNew):
        await SqliteStore(tmp_path).open()
    # It has released the lock, so that the right version can start.
    newer = apsw.Connection(str(tmp_path / "mainstem.db"))
    newer.pragma("user_version", len(STEPS))
    newer.close()
    async with opened(tmp_path) as store:
        assert store.head == 0


async def test_a_second_store_on_the_same_directory_is_refused_and_names_the_process(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()}"):
            await SqliteStore(tmp_path).open()
    async with opened(tmp_path) as store:
        assert store.head == 0


async def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    async with opened(tmp_path / "a" / "b") as store:
        await store.save({note("a"): Note()}, [], CommittedId(0))
    assert (tmp_path / "a" / "b" / "mainstem.db").exists()


async def test_a_file_of_an_older_version_is_migrated(tmp_path: Path) -> None:
    older = apsw.Connection(str(tmp_path / "mainstem.db"))
    for number, step in enumerate(STEPS[:2], start=1):
        older.execute(step)
        older.pragma("user_version", number)
    records = [
        Record(CommittedId(n), 0, Kind.APPEND, TopicId(1 + n % 2), n // 2, n // 2 + 1, 1, b"%d" % n)
        for n in range(2, 8)
    ]
    queries.insert_records(older, records)
    older.close()
    async with opened(tmp_path) as store:
        assert [await data(store, topic) for topic in (1, 2)] == [b"246", b"357"]


@pytest.fixture
def lax_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in directory.iterdir()}


def copy_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def leave_behind(directory: Path, files: dict[str, bytes]) -> None:
    """Leave the files as a killed server does, with its journal, and readable by everybody."""
    for name, content in files.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o666)


@pytest.mark.usefixtures("lax_umask")
async def test_files_are_private_regardless_of_the_umask(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await Writing(store).append(1, b"data").save()
        found = modes(tmp_path)
    assert {"mainstem.db", "mainstem.db-wal", "mainstem.db-shm", "lock"} <= set(found)
    assert set(found.values()) == {0o600}


@pytest.mark.usefixtures("lax_umask")
async def test_existing_files_become_private(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await Writing(store).append(1, b"data").save()
    copies = copy_files(tmp_path)
    await store.close()
    leave_behind(tmp_path, copies)
    async with opened(tmp_path) as store:
        assert await data(store) == b"data"
        assert set(modes(tmp_path).values()) == {0o600}


# The append index


async def test_new_index_entries_are_merged_when_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNMERGED_APPENDS_MAX", 10)
    async with opened(tmp_path) as store:
        writing = Writing(store)
        for number in range(25):
            await writing.append(1 + number % 3, b"%02d" % number).save()
            await store.fold()
    async with opened(tmp_path) as store:  # new entries are counted at the start
        writing = Writing(store, writing.tails)
        for number in range(25, 29):
            await writing.append(1 + number % 3, b"%02d" % number).save()
            await store.fold()
        look = apsw.Connection(str(tmp_path / "mainstem.db"))
        assert look.execute("SELECT (SELECT count(*) FROM old_places), (SELECT count(*) FROM new_places)").get == (
            20,
            9,
        )
        await writing.append(3, b"29").save()
        await store.fold()
        assert look.execute("SELECT (SELECT count(*) FROM old_places), (SELECT count(*) FROM new_places)").get == (
            30,
            0,
        )
        look.close()
        for topic in range(3):
            assert await data(store, 1 + topic) == b"".join(b"%02d" % number for number in range(topic, 30, 3))


async def test_a_page_may_span_both_tables_of_the_index(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "UNMERGED_APPENDS_MAX", 4)
    async with opened(tmp_path) as store:
        writing = Writing(store)
        for number in range(6):
            await writing.append(1, b"%02d" % number).save()
            await store.fold()
        whole = b"000102030405"
        for start in range(0, 12, 2):
            for size in range(1, 13):
                chunk = await store.read(TopicId(1), start, MUCH, size)
                assert chunk is not None
                assert chunk.data == whole[start : start + max(2, size // 2 * 2)]


async def test_readers_miss_nothing_during_a_merge_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNMERGED_APPENDS_MAX", 3)
    async with opened(tmp_path) as store:
        writing = Writing(store)
        saved = 0

        async def read() -> None:
            while saved < 300:
                before = saved
                assert len(await data(store)) >= before
                await asyncio.sleep(0)  # a read from memory does not

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for _ in range(300):
            await writing.append(1, b"x").save()
            saved += 1
        await asyncio.gather(*readers)


async def test_a_full_disk_during_a_merge_of_the_index_loses_nothing(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNMERGED_APPENDS_MAX", 8)
    async with opened(tmp_path, disk) as store:
        writing = Writing(store)
        for _ in range(7):
            await writing.append(1, b"a").save()
        await store.fold()
        await writing.append(1, b"b").save()
        disk.fill_up(after_writes=3)
        with pytest.raises(StoreFull):
            await store.fold()
        assert await data(store) == b"aaaaaaab"
        disk.heal()
        await store.fold()
        assert await data(store) == b"aaaaaaab"
    look = apsw.Connection(str(tmp_path / "mainstem.db"))
    assert queries.count_unmerged_appends(look) == 0
    look.close()


# The cache


async def test_an_evicted_state_is_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATES_CACHED_MAX", 8)
    async with opened(tmp_path) as store:
        states: dict[Key, State | None] = {count(str(number)): Count(number) for number in range(50)}
        for key, state in states.items():
            await store.save({key: state}, [], CommittedId(0))
        for key, state in states.items():
            assert await store.get(key) == state
        assert await store.load(states) == states


async def test_a_failed_save_does_not_change_the_cache(tmp_path: Path, disk: FaultyDisk) -> None:
    async with opened(tmp_path, disk) as store:
        await store.save({note("a"): Note("kept")}, [], CommittedId(0))
        disk.fill_up()
        with pytest.raises(StoreFull):
            await store.save({note("a"): Note("lost"), note("b"): Note("lost")}, [], CommittedId(0))
        disk.heal()
        assert await store.load([note("a"), note("b")]) == {note("a"): Note("kept"), note("b"): None}


# The journal


async def test_a_large_journal_is_checkpointed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAL_PAGES", 20)
    async with opened(tmp_path) as store:
        writing = Writing(store)
        for _ in range(100):
            await writing.append(1, b"x" * 10_000).save()
            await store.fold()
        # Without checkpoints it would hold more than 250 pages.
        assert (tmp_path / "mainstem.db-wal").stat().st_size < 100 * 4_096
        assert await data(store) == b"x" * 1_000_000


async def test_checkpoints_resume_after_the_disk_was_full(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WAL_PAGES", 20)
    async with opened(tmp_path, disk) as store:
        kept = 0
        for number in range(60):
            if number == 20:
                disk.fill_up(after_writes=30)
            if number == 40:
                disk.heal()
            try:
                await Writing(store, {1: kept}).append(1, b"x" * 10_000).save()
            except StoreFull:
                continue
            kept += 10_000
            with suppress(StoreFull):
                await store.fold()
        assert store.broken is None
        assert 0 < kept < 600_000
        assert await data(store) == b"x" * kept
        assert store.head == kept // 10_000


# A full disk


@pytest.mark.parametrize("after_writes", [0, 1])
async def test_a_save_that_runs_out_of_space_half_way_changes_nothing(
    tmp_path: Path, disk: FaultyDisk, after_writes: int
) -> None:
    async with opened(tmp_path, disk) as store:
        await Writing(store).append(1, b"kept").save()
        disk.fill_up(after_writes=after_writes)
        lost = Writing(store, {1: 4}).append(1, b"lost" * 20_000)
        lost.changes = {note("a"): Note("lost")}
        with pytest.raises(StoreFull):
            await lost.save()
        assert store.head == 1
        assert await data(store) == b"kept"
        assert await store.get(note("a")) is None
        disk.heal()
        await Writing(store, {1: 4}).append(1, b" on").save()
    async with opened(tmp_path) as store:
        assert store.head == 2
        assert await data(store) == b"kept on"


async def test_readers_find_a_batch_only_when_its_save_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is published right after. A store that finds out whether its disk is still full must not delay that."""
    async with opened(tmp_path) as store:
        looked, free = threading.Event(), threading.Event()

        def look() -> None:
            looked.set()
            free.wait()

        store._database.note_full("the disk is full")
        monkeypatch.setattr(store._database, "update_full", look)
        save = asyncio.create_task(Writing(store).append(1, b"early").save())
        await asyncio.to_thread(looked.wait)
        try:
            assert (await data(store), store.head) == (b"", 0)
        finally:
            free.set()
        await save
        assert await data(store) == b"early"


@pytest.mark.parametrize("after_writes", range(0, 12, 2))
async def test_a_fold_that_runs_out_of_space_half_way_changes_nothing(
    tmp_path: Path, disk: FaultyDisk, after_writes: int
) -> None:
    async with opened(tmp_path / "data", disk) as store:
        await Writing(store).append(1, b"kept").save()
        await store.fold()
        more = Writing(store, {1: 4}).append(1, b"more" * 20_000)
        more.changes = {note("a"): Note("more")}
        await more.save()
        disk.fill_up(after_writes=after_writes)
        with pytest.raises(StoreFull):
            await store.fold()
        disk.lose_power(tmp_path / "found")
        assert store.head == 2
        assert await data(store) == b"kept" + b"more" * 20_000
        assert await store.get(note("a")) == Note("more")
        disk.heal()
    for directory in ("data", "found"):
        async with opened(tmp_path / directory) as store:
            assert store.head == 2
            assert await data(store) == b"kept" + b"more" * 20_000
            assert await store.get(note("a")) == Note("more")


async def test_erasing_on_a_full_disk_is_refused_and_changes_nothing(tmp_path: Path, disk: FaultyDisk) -> None:
    async with opened(tmp_path, disk) as store:
        await Writing(store).append(1, b"a", b"b").save()
        disk.fill_up()
        with pytest.raises(StoreFull):
            await store.erase(TopicId(1), MUCH, 10)
        assert await data(store) == b"ab"
        disk.heal()
        assert store.broken is None
        await Writing(store, {1: 2}).append(1, b"c").save()
        assert await store.erase(TopicId(1), MUCH, 10) == 3


# A disk that cannot sync


async def test_after_a_failed_sync_saves_are_refused_until_the_store_is_opened_again(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    async with opened(tmp_path, disk) as store:
        await Writing(store).append(1, b"kept").save()
        disk.fail_syncs()
        with pytest.raises(StoreFailed):
            await Writing(store, {1: 4}).append(1, b"lost").save()
        disk.heal()
        assert store.broken is not None
        with pytest.raises(StoreFailed):
            await Writing(store, {1: 4}).append(1, b"refused").save()
        assert await data(store) == b"kept"
        assert store.head == 1
    async with opened(tmp_path, disk) as store:
        assert store.broken is None
        assert (await data(store)).startswith(b"kept")
        assert b"refused" not in await data(store)
        await Writing(store, {1: len(await data(store))}).append(1, b" on").save()


async def test_after_a_failed_sync_erasing_is_refused_too(tmp_path: Path, disk: FaultyDisk) -> None:
    """It writes to the same journal, whose content is uncertain."""
    async with opened(tmp_path, disk) as store:
        await Writing(store).append(1, b"kept").save()
        disk.fail_syncs()
        with pytest.raises(StoreFailed):
            await Writing(store, {1: 4}).append(1, b"lost").save()
        disk.heal()
        before = disk.writes
        with pytest.raises(StoreFailed):
            await store.erase(TopicId(1), MUCH, 10)
        assert disk.writes == before
        assert await data(store) == b"kept"


async def test_a_failed_sync_during_an_erase_breaks_the_store(tmp_path: Path, disk: FaultyDisk) -> None:
    async with opened(tmp_path, disk) as store:
        await Writing(store).append(1, b"kept").save()
        disk.fail_syncs()
        with pytest.raises(StoreFailed):
            await store.erase(TopicId(1), MUCH, 10)
        disk.heal()
        assert store.broken is not None
        with pytest.raises(StoreFailed):
            await Writing(store, {1: 4}).append(1, b"refused").save()


async def test_a_failed_sync_during_a_checkpoint_breaks_the_store(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, disk) as store:
        writing = Writing(store)
        await writing.append(1, b"kept").save()
        monkeypatch.setattr(limits, "WAL_PAGES", 1)
        disk.fail_syncs(after_syncs=1)  # the sync of the save succeeds, that of the checkpoint fails
        await writing.append(1, b" too").save()
        with pytest.raises(StoreFailed):
            await writing.append(1, b"refused").save()
        disk.heal()
        assert store.broken is not None
        assert await data(store) == b"kept too"


# Power failures


async def test_a_save_survives_a_power_failure_right_after_it(tmp_path: Path, disk: FaultyDisk) -> None:
    async with opened(tmp_path / "data", disk) as store:
        writing = Writing(store)
        for number in range(8):
            writing.changes = {count("a"): Count(number)}
            await writing.append(1, b"%d" % number).save()
            found = tmp_path / f"found-{number}"
            disk.lose_power(found)
            async with opened(found) as other:
                assert other.head == number + 1
                assert await data(other) == b"01234567"[: number + 1]
                assert await other.get(count("a")) == Count(number)


async def test_saves_survive_power_failures_around_checkpoints(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WAL_PAGES", 10)
    async with opened(tmp_path / "data", disk) as store:
        writing = Writing(store)
        for number in range(40):
            await writing.append(1, b"x" * 5_000).save()
            found = tmp_path / f"found-{number}"
            disk.lose_power(found)
            async with opened(found) as other:
                # A checkpoint may be running: the store answers before it begins.
                assert other.head == number + 1
                ids = [record.committed_id async for record in read_whole_log(other)]
                assert ids == list(range(1, number + 2))
                integrity = apsw.Connection(str(found / "mainstem.db"), flags=apsw.SQLITE_OPEN_READONLY)
                assert integrity.pragma("integrity_check") == "ok"
                integrity.close()


async def test_after_a_power_failure_an_unsynced_save_is_complete_or_absent(tmp_path: Path, disk: FaultyDisk) -> None:
    async with opened(tmp_path / "data", disk) as store:
        await Writing(store).append(1, b"kept").save()
        disk.hold_syncs()
        late = Writing(store, {1: 4}).append(1, b"late" * 5_000)
        late.add(Kind.CLOSE, 1)
        saving = asyncio.create_task(late.save())
        await asyncio.to_thread(disk.wait_for_sync)
        disk.lose_power(tmp_path / "found")
        disk.heal()
        await saving
    async with opened(tmp_path / "found") as store:
        assert store.head == 1
        assert await data(store) == b"kept"


# Reserved space


def test_space_is_reserved_even_if_the_file_system_cannot_allocate_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    reserve = Reserve(tmp_path / "reserve")
    assert reserve.acquire()
    found = (tmp_path / "reserve").stat()
    assert found.st_blocks * 512 >= limits.RESERVE_BYTES
    assert reserve.release()
    assert not reserve.release()
    assert not (tmp_path / "reserve").exists()


def test_a_failed_reservation_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    reserve = Reserve(tmp_path / "reserve")
    assert not reserve.acquire()
    assert not (tmp_path / "reserve").exists()
    assert not reserve.release()
