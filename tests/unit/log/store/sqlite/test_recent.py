"""Readers see the same log wherever its newest part is: in memory, in the database, or on the way there."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstem import limits
from mainstem.errors import StoreFull
from mainstem.log.commands import Key, State
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store import MemoryStore, SqliteStore, Store
from mainstem.log.store.sqlite import ReadOnlySqliteStore
from mainstem.log.store.sqlite.journal import Batch, Content
from mainstem.log.store.sqlite.recent import Recent
from mainstem.testing.disk import FaultyDisk
from mainstem.testing.store_contract import COUNTS, MUCH, NOTES, Count, Note, Writing, count, note

TOPICS = range(1, 5)
TAGS = ("a", "b", "c")
NAMES = tuple("abcdefgh")


@asynccontextmanager
async def opened(store: SqliteStore) -> AsyncIterator[SqliteStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def save_something(stores: list[Store], tails: dict[int, int], chance: random.Random) -> dict[int, int]:
    """Save the same random commit in every store, and return the new ends of the topics."""
    writing = Writing(stores[0], tails)
    for _ in range(chance.randrange(4)):
        kind = chance.choice([Kind.APPEND, Kind.APPEND, Kind.EVENT, Kind.CLOSE])
        writing.add(kind, chance.choice(TOPICS), b"x" * chance.randrange(1, 30), messages=1)
        if kind is Kind.EVENT:
            tags = tuple(chance.sample(TAGS, chance.randrange(1, 3)))
            writing.records[-1] = msgspec.structs.replace(writing.records[-1], tags=tags, origin=7)
    changes: dict[Key, State | None] = {}
    for name in chance.sample(NAMES, chance.randrange(3)):
        changes[count(name)] = chance.choice([Count(chance.randrange(9)), None])
        changes[note(name)] = Note(name, chance.choice([None, chance.randrange(9)]))
    head = writing.head
    for store in stores:
        await store.save(changes, writing.records, head)
    return writing.tails


async def ask_everything(store: Store, chance: random.Random) -> list[Any]:
    """Return the answers to random questions of every kind. The same chance asks the same questions."""
    head = store.head
    after, until = CommittedId(chance.randrange(head + 1)), CommittedId(chance.randrange(head + 2))
    start, size, limit = chance.randrange(300), chance.randrange(1, 200), chance.randrange(1, 10)
    topic = TopicId(chance.choice(TOPICS))
    tags = chance.sample(TAGS, chance.randrange(1, 4))
    whole = await store.read(topic, 0, MUCH, MUCH)
    keys = [*map(count, NAMES), *map(note, NAMES)]
    return [
        head,
        whole,
        await store.read(topic, start, MUCH, size),
        await store.read(topic, start, start + size, size),
        await store.first_after(topic, after),
        await store.outline(topic, start, start + size, limit),
        await store.outline(topic, start, MUCH, limit, newest_first=True),
        await store.read_log(after, until, size * 10),
        await store.read_log(CommittedId(0), head, MUCH),
        await store.read_log(after, head, size * 10, [topic]),
        await store.measure(after, head, limit, size),
        await store.count(),
        await store.read_tagged(tags, after, head, limit, MUCH),
        await store.read_tagged(tags, after, head, MUCH, size * 10),
        await store.last_tagged(tags[0]),
        await store.list_tags("", chance.choice(["", *tags]), limit),
        await store.load(keys),
        await store.get_many(keys),
        await store.scan(COUNTS, "", chance.choice(NAMES), limit),
        await store.due(NOTES, limit, limit),
    ]


@pytest.mark.parametrize("seed", range(20))
async def test_a_store_that_folds_at_random_answers_like_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(limits, "STATES_CACHED_MAX", 3)
    monkeypatch.setattr(limits, "FOLD_RECORDS", chance.choice([3, 10, 10_000]))
    monkeypatch.setattr(limits, "JOURNAL_STEP_BYTES", chance.choice([0, 16_384, 262_144]))
    memory, tails = MemoryStore(), dict[int, int]()
    async with opened(SqliteStore(tmp_path)) as store:
        for _ in range(60):
            tails = await save_something([memory, store], tails, chance)
            if chance.random() < 0.1:
                await store.fold()
            questions = chance.random()
            if chance.random() < 0.5:
                assert await ask_everything(store, random.Random(questions)) == await ask_everything(
                    memory, random.Random(questions)
                )
    async with opened(SqliteStore(tmp_path)) as store:
        for number in range(20):
            assert await ask_everything(store, random.Random(number)) == await ask_everything(
                memory, random.Random(number)
            )


async def test_a_reader_misses_nothing_while_its_data_is_folded(tmp_path: Path) -> None:
    async with opened(SqliteStore(tmp_path)) as store:
        writing = Writing(store)
        for number in range(200):
            await writing.append(1, b"%03d" % number).save()
            folding = asyncio.create_task(store.fold())
            chunk, page = await asyncio.gather(
                store.read(TopicId(1), 0, MUCH, MUCH), store.read_log(CommittedId(0), store.head, MUCH)
            )
            assert chunk is not None
            assert chunk.data == b"".join(b"%03d" % n for n in range(number + 1))
            assert [record.committed_id for record in page] == list(range(1, number + 2))
            if number % 3:
                await folding
        await store.fold()


async def test_commits_wait_for_the_database_if_too_much_is_not_folded(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNFOLDED_BYTES_MAX", 1_000)
    monkeypatch.setattr(limits, "FOLD_DELAY_S", 3_600.0)
    async with opened(SqliteStore(tmp_path, disk)) as store:
        writing = Writing(store)
        for _ in range(50):
            await writing.append(1, b"x" * 100).save()
        syncs = disk.syncs
        assert syncs > 50 + 5  # each save has one, and so has each fold
        await store.fold()
        chunk = await store.read(TopicId(1), 0, MUCH, MUCH)
        assert chunk is not None
        assert len(chunk.data) == 5_000


async def test_nothing_is_measured_without_its_newest_part(tmp_path: Path, disk: FaultyDisk) -> None:
    """An export that takes an incomplete measurement for the whole log would skip the rest for ever."""
    async with opened(SqliteStore(tmp_path, disk)) as store:
        await Writing(store).append(1, b"a").save()
        disk.fill_up()
        with pytest.raises(StoreFull):
            await store.measure(CommittedId(0), store.head, 10, 10)
        with pytest.raises(StoreFull):
            await store.count()
        assert await store.scan(COUNTS, "", "", 10) == []
        disk.heal()
        assert (await store.measure(CommittedId(0), store.head, 10, 10)).rows == 1
        assert (await store.count()).appends == 1


def make_recent(*batches: tuple[Kind, ...]) -> Recent:
    """Return batches of records with these kinds, the first of which has the committed id 11."""
    recent, number = Recent(), 10
    for at, kinds in enumerate(batches, start=1):
        records = []
        for kind in kinds:
            number += 1
            records.append(Record(CommittedId(number), number, kind, TopicId(1), 0, 1, 1, b"x"))
        recent.add(Batch(at, Content([], records)), {}, 100)
    return recent


def test_data_after_an_id_changes_nothing_for_readers_up_to_it() -> None:
    recent = make_recent((Kind.APPEND, Kind.EVENT), (), (Kind.APPEND,))
    assert Recent().only_adds_after(CommittedId(10))
    assert recent.only_adds_after(CommittedId(10))
    assert not recent.only_adds_after(CommittedId(11))


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.CLOSE, Kind.DELETE, Kind.TRIM, Kind.PRUNE])
def test_a_change_of_a_stream_concerns_every_reader(kind: Kind) -> None:
    assert not make_recent((Kind.APPEND,), (Kind.APPEND, kind)).only_adds_after(CommittedId(10))


async def test_readers_of_old_records_leave_new_ones_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FOLD_DELAY_S", 60.0)
    async with opened(SqliteStore(tmp_path)) as store:
        writing = Writing(store, {})
        await writing.append(1, b"old").save()
        await store.fold()
        old = store.head
        await writing.append(1, b"new").save()
        for until, found in ((old, [b"old"]), (store.head, [b"old", b"new"])):
            await store.fold(until)
            database = ReadOnlySqliteStore(str(tmp_path))
            assert [record.data for record in await database.read_log(CommittedId(0), store.head, MUCH)] == found
