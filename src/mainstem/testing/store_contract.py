"""The Store contract, as tests that every store must pass. A subclass says how to create a store:

    class TestMyStore(DurableStoreContract):
        @pytest.fixture(autouse=True)
        def use_directory(self, tmp_path):
            self.directory = tmp_path

        def open_store(self):
            return MyStore(self.directory)

The tests are plain functions that run their own event loop, so they need no pytest plugin.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from mainstem.log.commands import Key, Space, State
from mainstem.log.records import RECORD_BYTES, CommittedId, Counts, Extent, Kind, Outline, Record, Size, TopicId
from mainstem.log.store.base import UNKNOWN, Store
from mainstem.testing.loops import run

C = TypeVar("C", bound="StoreContract")

NOW_US = 1_700_000_000_000_000
MUCH = 1 << 30


class Note(msgspec.Struct, frozen=True):
    """A state with a due time."""

    text: str = ""
    due_us: int | None = None


class Count(msgspec.Struct, frozen=True):
    number: int = 0


# Numbers that no protocol uses, because the contract must not depend on any space in particular.
NOTES: Space[Note] = Space(1001, Note, due=lambda note: note.due_us)
COUNTS: Space[Count] = Space(1002, Count)


def note(name: str) -> Key:
    return Key(NOTES, name)


def count(name: str) -> Key:
    return Key(COUNTS, name)


class Writing:
    """Builds the content of a commit: its changes, and records with the right ids and positions."""

    def __init__(self, store: Store, tails: Mapping[int, int] | None = None) -> None:
        self.store = store
        self.tails: dict[int, int] = dict(tails or {})
        self.changes: dict[Key, State | None] = {}
        self.records: list[Record] = []

    @property
    def head(self) -> CommittedId:
        return CommittedId(self.store.head + len(self.records))

    def add(self, kind: Kind, topic: int, data: bytes = b"", messages: int = 0, source: str | None = None) -> Record:
        start = self.tails.get(topic, 0)
        end = start + len(data) if kind is Kind.APPEND else start
        record = Record(
            CommittedId(self.head + 1), NOW_US + self.head, kind, TopicId(topic), start, end, messages, data, source
        )
        self.records.append(record)
        self.tails[topic] = end
        return record

    def append(self, topic: int, *datas: bytes) -> "Writing":
        for data in datas:
            self.add(Kind.APPEND, topic, data, messages=1)
        return self

    def tag(self, *tags: str) -> "Writing":
        """Add an event with these tags."""
        event = self.add(Kind.EVENT, 0, b"event", messages=1)
        self.records[-1] = msgspec.structs.replace(event, tags=tags)
        return self

    async def save(self) -> list[Record]:
        """Save the commit, return its records, and begin the next one."""
        await self.store.save(self.changes, self.records, self.head)
        saved, self.records, self.changes = self.records, [], {}
        return saved


def over_store(test: Callable[[C, Store], Awaitable[None]]) -> Callable[[C], None]:
    """Turn a test that takes an open, empty store into a plain test."""

    def run_test(self: C) -> None:
        async def main() -> None:
            async with self.opened() as store:
                await test(self, store)

        run(main())

    # Not functools.wraps: pytest would see the signature of `test` and look for a fixture named `store`.
    run_test.__name__, run_test.__doc__ = test.__name__, test.__doc__
    return run_test


def over_reopened_store(test: Callable[[C], Coroutine[Any, Any, None]]) -> Callable[[C], None]:
    """Turn a test that opens its stores itself into a plain test."""

    def run_test(self: C) -> None:
        run(test(self))

    run_test.__name__, run_test.__doc__ = test.__name__, test.__doc__
    return run_test


class StoreContract(ABC):
    """What every store must do while it is open."""

    @abstractmethod
    def open_store(self) -> Store:
        """Return a store that has not been opened yet. A durable one must find what the previous one has saved."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = self.open_store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    # States

    @over_store
    async def test_an_empty_store_begins_at_head_zero(self, store: Store) -> None:
        assert store.head == 0
        assert store.broken is None
        assert await store.load([note("a")]) == {note("a"): None}
        assert await store.get(note("a")) is None
        assert await store.scan(NOTES, "", "", 10) == []
        assert await store.due(NOTES, MUCH, 10) == []
        assert await store.read(TopicId(1), 0, MUCH, MUCH) is None
        assert await store.read_log(CommittedId(0), CommittedId(MUCH), MUCH) == []
        assert await store.erase(TopicId(1), MUCH, 10) == 0

    @over_store
    async def test_load_returns_an_entry_for_every_key(self, store: Store) -> None:
        await store.save({note("a"): Note("one"), count("a"): Count(1)}, [], CommittedId(0))
        keys = [note("a"), note("b"), count("a"), count("b")]
        assert await store.load(keys) == {
            note("a"): Note("one"),
            note("b"): None,
            count("a"): Count(1),
            count("b"): None,
        }
        assert await store.load([]) == {}

    @over_store
    async def test_load_accepts_any_number_of_keys(self, store: Store) -> None:
        saved: dict[Key, State | None] = {count(f"{number:05d}"): Count(number) for number in range(2_001)}
        await store.save(saved, [], CommittedId(0))
        missing: dict[Key, State | None] = {count(f"x{number}"): None for number in range(700)}
        assert await store.load([*saved, *missing]) == {**saved, **missing}

    @over_store
    async def test_load_accepts_an_iterator_of_keys(self, store: Store) -> None:
        await store.save({note("a"): Note("one")}, [], CommittedId(0))
        assert await store.load(iter([note("a"), note("b")])) == {note("a"): Note("one"), note("b"): None}

    @over_store
    async def test_get_many_returns_an_entry_for_every_key(self, store: Store) -> None:
        saved: dict[Key, State | None] = {count(str(number)): Count(number) for number in range(1_200)}
        await store.save(saved, [], CommittedId(0))
        assert await store.get_many([*saved, note("none")]) == {**saved, note("none"): None}
        assert await store.get_many([count("7"), count("7")]) == {count("7"): Count(7)}
        assert await store.get_many([]) == {}

    @over_store
    async def test_a_state_that_is_in_memory_is_current(self, store: Store) -> None:
        for state in (Count(1), Count(2), None):
            await store.save({count("a"): state}, [], CommittedId(0))
            assert store.peek(count("a")) in (state, UNKNOWN)
            assert await store.get(count("a")) == state
            assert store.peek(count("a")) in (state, UNKNOWN)

    @over_store
    async def test_a_saved_state_replaces_the_one_before(self, store: Store) -> None:
        await store.save({note("a"): Note("one", 5)}, [], CommittedId(0))
        await store.save({note("a"): Note("two")}, [], CommittedId(0))
        assert await store.get(note("a")) == Note("two")
        assert await store.load([note("a")]) == {note("a"): Note("two")}
        assert await store.due(NOTES, MUCH, 10) == []

    @over_store
    async def test_none_removes_a_state_everywhere(self, store: Store) -> None:
        await store.save({note("a"): Note("one", 5), note("b"): Note("two", 6)}, [], CommittedId(0))
        await store.save({note("a"): None, note("never was"): None}, [], CommittedId(0))
        assert await store.get(note("a")) is None
        assert await store.load([note("a")]) == {note("a"): None}
        assert await store.scan(NOTES, "", "", 10) == [("b", Note("two", 6))]
        assert await store.due(NOTES, MUCH, 10) == ["b"]

    @over_store
    async def test_spaces_do_not_see_each_other(self, store: Store) -> None:
        await store.save({note("a"): Note("one", 5), count("a"): Count(1)}, [], CommittedId(0))
        await store.save({note("a"): None}, [], CommittedId(0))
        assert await store.get(count("a")) == Count(1)
        assert await store.scan(NOTES, "", "", 10) == []
        assert await store.scan(COUNTS, "", "", 10) == [("a", Count(1))]
        assert await store.due(COUNTS, MUCH, 10) == []

    @over_store
    async def test_a_name_is_stored_exactly(self, store: Store) -> None:
        names = ["a", "A", "a ", "é", "e\u0301", "a\0b", "a\0", "%", "_", "'\"", "\U0001f30a", "\uffff", "x" * 2_000]
        saved: dict[Key, State | None] = {note(name): Note(name) for name in names}
        await store.save(saved, [], CommittedId(0))
        assert await store.load(saved) == saved
        assert [name for name, _ in await store.scan(NOTES, "", "", 100)] == sorted(names)

    # Scanning

    @over_store
    async def test_scan_goes_by_code_point_order(self, store: Store) -> None:
        # By UTF-16 code units, the last two would swap; by a locale, é would come next to e.
        names = ["B", "Z", "a", "b", "e", "z", "é", "中", "\uffee", "\U0001f600"]
        assert names == sorted(names)
        await store.save({note(name): Note(name) for name in reversed(names)}, [], CommittedId(0))
        assert await store.scan(NOTES, "", "", 100) == [(name, Note(name)) for name in names]

    @over_store
    async def test_scan_finds_exactly_the_names_with_the_prefix(self, store: Store) -> None:
        names = ["a", "a/", "a/b", "a/b\0c", "a/é", "a/\U0010ffff", "a0", "b", "é", "é/1", "é/2", "ê"]
        await store.save({note(name): Note(name) for name in names}, [], CommittedId(0))
        for prefix in ["", "a", "a/", "a/b", "a/b\0", "é", "é/", "nothing", "\U0010ffff", "%", "a_"]:
            wanted = [name for name in sorted(names) if name.startswith(prefix)]
            assert [name for name, _ in await store.scan(NOTES, prefix, "", 100)] == wanted

    @over_store
    async def test_pages_of_a_scan_hold_every_name_once(self, store: Store) -> None:
        names = sorted(f"p/{number}/é" for number in range(23))
        await store.save({note(name): Note(name) for name in [*names, "o", "q"]}, [], CommittedId(0))
        seen: list[str] = []
        after = ""
        while page := await store.scan(NOTES, "p/", after, 5):
            assert len(page) <= 5
            seen += [name for name, _ in page]
            after = page[-1][0]
        assert seen == names

    @over_store
    async def test_scan_begins_strictly_after_a_name_that_need_not_exist(self, store: Store) -> None:
        await store.save({note(name): Note() for name in ["a", "c", "e"]}, [], CommittedId(0))
        assert [name for name, _ in await store.scan(NOTES, "", "a", 10)] == ["c", "e"]
        assert [name for name, _ in await store.scan(NOTES, "", "b", 10)] == ["c", "e"]
        assert [name for name, _ in await store.scan(NOTES, "c", "a", 10)] == ["c"]
        assert await store.scan(NOTES, "a", "c", 10) == []
        assert await store.scan(NOTES, "", "e", 10) == []

    # Due times

    @over_store
    async def test_due_returns_the_earliest_first_and_nothing_that_is_due_later(self, store: Store) -> None:
        times = {"late": 300, "never": None, "now": 200, "first": 100, "also now": 200, "past": -5}
        await store.save({note(name): Note(due_us=at) for name, at in times.items()}, [], CommittedId(0))
        assert await store.due(NOTES, 200, 10) == ["past", "first", "also now", "now"]
        assert await store.due(NOTES, 199, 10) == ["past", "first"]
        assert await store.due(NOTES, 200, 2) == ["past", "first"]
        assert await store.due(NOTES, -6, 10) == []

    @over_store
    async def test_a_new_due_time_replaces_the_old_one(self, store: Store) -> None:
        await store.save({note("a"): Note(due_us=100), note("b"): Note(due_us=200)}, [], CommittedId(0))
        await store.save({note("a"): Note(due_us=300)}, [], CommittedId(0))
        assert await store.due(NOTES, 250, 10) == ["b"]
        assert await store.due(NOTES, 300, 10) == ["b", "a"]

    # Committing

    @over_store
    async def test_save_moves_the_head_to_its_argument(self, store: Store) -> None:
        writing = Writing(store)
        await writing.append(1, b"one", b"two").save()
        assert store.head == 2
        writing.changes = {note("a"): Note()}
        await writing.save()
        assert store.head == 2
        await writing.append(1, b"three").save()
        assert store.head == 3

    @over_store
    async def test_one_save_holds_states_of_all_spaces_and_records_of_all_topics(self, store: Store) -> None:
        writing = Writing(store)
        writing.changes = {note("a"): Note("one", 1), count("b"): Count(2)}
        writing.append(1, b"first of 1").append(2, b"first of 2").append(1, b"second of 1")
        await writing.save()
        assert await store.get(note("a")) == Note("one", 1)
        assert await store.get(count("b")) == Count(2)
        assert await self._data(store, 1) == b"first of 1second of 1"
        assert await self._data(store, 2) == b"first of 2"

    @over_store
    async def test_saves_of_every_size_keep_every_record(self, store: Store) -> None:
        """Stores write rows in groups: sizes around the size of a group must not lose or duplicate a row."""
        writing = Writing(store)
        saved: list[Record] = []
        changes: dict[Key, State | None] = {}
        for size in [1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 72, 73, 127, 128, 129, 200]:
            writing.changes = {count(f"{size}/{number}"): Count(number) for number in range(size)}
            changes.update(writing.changes)
            saved += await writing.append(size, *(b"%d," % number for number in range(size))).save()
        assert await self._log(store) == saved
        assert await store.load(changes) == changes

    @over_store
    async def test_a_batch_that_changes_nothing_or_fails_holds_nothing(self, store: Store) -> None:
        writing = Writing(store)
        writing.changes = {note("a"): Note("one")}
        await writing.append(1, b"x").save()
        for _ in range(3):
            assert await store.load([note("a"), note("b")]) == {note("a"): Note("one"), note("b"): None}
            await store.confirm()
            await store.load([note("a")])
            await store.release()
            await store.release()
        await store.load([note("a")])  # two loads in a row are fine, too
        await store.load([note("a")])
        writing.changes = {note("a"): Note("two")}
        await writing.append(1, b"y").save()
        assert await store.get(note("a")) == Note("two")
        await store.catch_up()
        assert store.head == 2

    @over_store
    async def test_readers_see_a_commit_whole_or_not_at_all(self, store: Store) -> None:
        """Two states are always written together, so a reader must never see them differ."""
        writing = Writing(store)
        done = False

        async def watch() -> int:
            looks = 0
            while not done:
                page = await store.scan(COUNTS, "", "", 10)
                assert len({state.number for _, state in page}) <= 1
                looks += 1
                await asyncio.sleep(0)
            return looks

        watching = asyncio.create_task(watch())
        for number in range(50):
            writing.changes = {count("left"): Count(number), count("right"): Count(number)}
            await writing.append(1, b"x").save()
            await asyncio.sleep(0)
        done = True
        assert await watching > 0

    @over_store
    async def test_a_read_during_a_save_does_not_leave_an_old_state_in_the_cache(self, store: Store) -> None:
        writing = Writing(store)
        for number in range(50):
            writing.changes = {count("a"): Count(number)}
            _, *seen = await asyncio.gather(writing.save(), *(store.get(count("a")) for _ in range(4)))
            assert {state.number for state in seen if state is not None} <= {number - 1, number}
            assert await store.get(count("a")) == Count(number)
            assert await store.load([count("a")]) == {count("a"): Count(number)}

    # Reading a topic

    @over_store
    async def test_a_read_joins_whole_records(self, store: Store) -> None:
        await Writing(store).append(1, b"one", b"two").append(2, b"other").append(1, b"three").save()
        chunk = await store.read(TopicId(1), 0, 11, MUCH)
        assert chunk is not None
        assert (chunk.start, chunk.end, chunk.data) == (0, 11, b"onetwothree")

    @over_store
    async def test_a_read_returns_exactly_the_bytes_that_were_saved(self, store: Store) -> None:
        datas = [bytes(range(256)), b"\0", b"\0\0", b"\xff\xfe", "é".encode()[:1], "é".encode()[1:], b"\r\n", b"'"]
        await Writing(store).append(1, *datas).save()
        assert await self._data(store, 1) == b"".join(datas)
        position = 0
        for data in datas:
            chunk = await store.read(TopicId(1), position, position + 1, 1)
            assert chunk is not None
            assert chunk.data == data
            position = chunk.end

    @over_store
    async def test_a_read_begins_with_the_record_that_contains_start(self, store: Store) -> None:
        await Writing(store).append(1, b"0123", b"4567", b"89").save()
        for start, begins in [(0, 0), (1, 0), (3, 0), (4, 4), (7, 4), (8, 8), (9, 8)]:
            chunk = await store.read(TopicId(1), start, 10, MUCH)
            assert chunk is not None
            assert (chunk.start, chunk.end, chunk.data) == (begins, 10, b"0123456789"[begins:])

    @over_store
    async def test_a_read_holds_no_record_that_begins_at_until_or_later(self, store: Store) -> None:
        await Writing(store).append(1, b"0123", b"4567", b"89").save()
        for until, ends in [(1, 4), (4, 4), (5, 8), (8, 8), (9, 10), (100, 10)]:
            chunk = await store.read(TopicId(1), 0, until, MUCH)
            assert chunk is not None
            assert chunk.end == ends
        assert await store.read(TopicId(1), 4, 4, MUCH) is None
        assert await store.read(TopicId(1), 0, 0, MUCH) is None

    @over_store
    async def test_a_read_ends_within_bytes_max_of_start(self, store: Store) -> None:
        await Writing(store).append(1, b"0123", b"4567", b"89").save()
        for start, bytes_max, ends in [(0, 4, 4), (0, 7, 4), (0, 8, 8), (0, 9, 8), (0, 10, 10), (2, 6, 8), (4, 5, 8)]:
            chunk = await store.read(TopicId(1), start, 10, bytes_max)
            assert chunk is not None
            assert chunk.end == ends

    @over_store
    async def test_a_read_holds_one_record_even_if_it_is_too_large(self, store: Store) -> None:
        big = b"x" * 1_000_000
        await Writing(store).append(1, big, b"small").save()
        for start in (0, 1, 999_999):
            chunk = await store.read(TopicId(1), start, 1_000_005, 1)
            assert chunk is not None
            assert (chunk.start, chunk.end, chunk.data) == (0, 1_000_000, big)
        chunk = await store.read(TopicId(1), 0, 1_000_005, 0)
        assert chunk is not None
        assert chunk.end == 1_000_000

    @over_store
    async def test_there_is_nothing_to_read_at_the_end_or_in_an_unknown_topic(self, store: Store) -> None:
        await Writing(store).append(1, b"0123").save()
        assert await store.read(TopicId(1), 4, 100, MUCH) is None
        assert await store.read(TopicId(1), 99, 100, MUCH) is None
        assert await store.read(TopicId(2), 0, 100, MUCH) is None

    @over_store
    async def test_the_pages_of_a_topic_add_up_to_all_of_it(self, store: Store) -> None:
        datas = [bytes([65 + number % 26]) * (number % 17 + 1) for number in range(120)]
        writing = Writing(store)
        for at in range(0, len(datas), 7):
            await writing.append(1, *datas[at : at + 7]).append(2, b"noise").save()
        for bytes_max in (1, 10, 64, MUCH):
            assert await self._data(store, 1, bytes_max) == b"".join(datas)

    @over_store
    async def test_only_appends_are_a_topics_data(self, store: Store) -> None:
        writing = Writing(store)
        writing.add(Kind.CREATE, 1, b"about")
        writing.append(1, b"data")
        writing.add(Kind.CLOSE, 1)
        writing.add(Kind.DELETE, 1)
        await writing.save()
        assert await self._data(store, 1) == b"data"

    @over_store
    async def test_an_outline_lists_the_records_that_overlap_a_range_without_their_data(self, store: Store) -> None:
        writing = Writing(store)
        writing.add(Kind.CREATE, 1, b"about")
        writing.append(1, b"0123", b"4567").append(2, b"other").append(1, b"89")
        saved = await writing.save()
        outlines = [
            Outline(record.start, record.end, record.messages, record.committed_at_us, record.committed_id)
            for record in saved
            if record.kind is Kind.APPEND and record.topic == 1
        ]
        assert await store.outline(TopicId(1), 0, 10, 100) == outlines
        for start, until, first, last in [(0, 4, 0, 1), (0, 5, 0, 2), (3, 8, 0, 2), (4, 8, 1, 2), (8, 100, 2, 3)]:
            assert await store.outline(TopicId(1), start, until, 100) == outlines[first:last]
        assert await store.outline(TopicId(1), 10, 100, 100) == []
        assert await store.outline(TopicId(3), 0, 100, 100) == []

    @over_store
    async def test_an_outline_begins_with_the_oldest_or_the_newest_record(self, store: Store) -> None:
        await Writing(store).append(1, b"a", b"b", b"c", b"d").save()
        oldest = await store.outline(TopicId(1), 0, 4, 3)
        newest = await store.outline(TopicId(1), 0, 4, 3, newest_first=True)
        assert [outline.start for outline in oldest] == [0, 1, 2]
        assert [outline.start for outline in newest] == [3, 2, 1]
        assert [outline.start for outline in await store.outline(TopicId(1), 1, 3, 1, newest_first=True)] == [2]

    @over_store
    async def test_first_after_finds_the_topics_first_data_record_after_a_committed_id(self, store: Store) -> None:
        writing = Writing(store)
        writing.add(Kind.CREATE, 1, b"about")
        writing.append(1, b"0123").append(2, b"other").append(1, b"4567", b"89")
        writing.add(Kind.CLOSE, 1)
        await writing.save()
        for after, start in [(0, 0), (1, 0), (2, 4), (3, 4), (4, 8), (5, None), (6, None), (100, None)]:
            assert await store.first_after(TopicId(1), CommittedId(after)) == start
        assert await store.first_after(TopicId(2), CommittedId(0)) == 0
        assert await store.first_after(TopicId(3), CommittedId(0)) is None

    # Reading the log

    @over_store
    async def test_the_log_returns_every_record_as_it_was_saved(self, store: Store) -> None:
        writing = Writing(store)
        writing.add(Kind.CREATE, 1, b"about")
        writing.add(Kind.APPEND, 1, b"\0data", messages=3, source="producer é")
        writing.add(Kind.APPEND, 2, b"other", messages=1)
        writing.add(Kind.CLOSE, 1)
        writing.add(Kind.DELETE, 2)
        saved = await writing.save()
        found = await self._log(store)
        assert found == saved
        assert [type(record.kind) for record in found] == [Kind] * 5

    @over_store
    async def test_the_log_is_read_after_one_id_and_until_another(self, store: Store) -> None:
        saved = await Writing(store).append(1, *(b"x" for _ in range(6))).save()
        for after, until in [(0, 6), (0, 3), (2, 5), (5, 6), (6, 6), (3, 2), (4, 100), (6, 100), (100, 200)]:
            page = await store.read_log(CommittedId(after), CommittedId(until), MUCH)
            assert page == saved[after:until]

    @over_store
    async def test_pages_of_the_log_hold_every_record_once(self, store: Store) -> None:
        writing = Writing(store)
        for number in range(40):
            writing.append(number % 3 + 1, b"x" * (number % 7 * 10 + 1))
            if number % 5 == 0:
                writing.add(Kind.CLOSE, number % 3 + 1)
        saved = await writing.save()
        for bytes_max in (0, 1, 50, 500, MUCH):
            assert await self._log(store, bytes_max) == saved

    @over_store
    async def test_a_page_of_the_log_stays_within_its_bytes_but_holds_at_least_one_record(self, store: Store) -> None:
        saved = await Writing(store).append(1, b"x" * 10, b"y" * 10, b"z" * 100, b"a").save()
        for after, data_bytes, number in [(0, 20, 2), (0, 19, 1), (0, 0, 1), (2, 5, 1), (0, 121, 4), (0, 120, 3)]:
            bytes_max = data_bytes + number * RECORD_BYTES
            page = await store.read_log(CommittedId(after), store.head, bytes_max)
            assert page == saved[after : after + number]

    @over_store
    async def test_a_page_of_the_log_can_be_limited_to_some_topics(self, store: Store) -> None:
        saved = await Writing(store).append(1, b"a", b"b").append(2, b"c").append(3, b"d").append(1, b"e").save()
        for topics in ([1], [2, 3], [], [9], [1, 2, 3]):
            wanted = [record for record in saved if record.topic in topics]
            ids = [TopicId(number) for number in topics]
            assert await store.read_log(CommittedId(0), CommittedId(MUCH), MUCH, ids) == wanted
            assert (
                await store.read_log(CommittedId(1), CommittedId(4), 0, ids)
                == [record for record in wanted if 1 < record.committed_id <= 4][:1]
            )

    # Measuring

    @over_store
    async def test_measure_stops_at_the_limits_of_messages_and_bytes(self, store: Store) -> None:
        writing = Writing(store).append(1, b"aa", b"bb").append(2, b"cc")
        writing.add(Kind.CLOSE, 1)
        await writing.append(2, b"dddd").save()
        head = store.head
        for rows, size, extent in [
            (1, MUCH, Extent(1, 1, 2)),
            (2, MUCH, Extent(2, 2, 4)),
            (3, MUCH, Extent(3, 3, 6)),
            (4, MUCH, Extent(5, 4, 10)),
            (9, MUCH, Extent(5, 4, 10)),
            (MUCH, 1, Extent(1, 1, 2)),
            (MUCH, 5, Extent(2, 2, 4)),
            (MUCH, 10, Extent(5, 4, 10)),
        ]:
            assert await store.measure(CommittedId(0), head, rows, size) == extent
        assert await store.measure(head, head, 1, MUCH) == Extent(head, 0, 0)
        assert await store.measure(CommittedId(3), CommittedId(4), 1, MUCH) == Extent(4, 0, 0)

    @over_store
    async def test_sizes_measure_ranges_of_the_log(self, store: Store) -> None:
        writing = Writing(store).append(1, b"aa", b"bb").append(2, b"cc")
        writing.add(Kind.CLOSE, 1)
        await writing.append(2, b"dddd").save()
        ranges = [(0, 2), (2, 4), (3, 4), (4, 9), (0, 9)]
        everything = [Size(2, 4), Size(1, 2), Size(0, 0), Size(1, 4), Size(4, 10)]
        assert await store.sizes(ranges) == everything
        assert await store.sizes(ranges, [TopicId(2)]) == [Size(0, 0), Size(1, 2), Size(0, 0), Size(1, 4), Size(2, 6)]
        assert await store.sizes([(0, 9)], []) == [Size(0, 0)]
        assert await store.sizes([]) == []

    @over_store
    async def test_the_first_record_after_an_id_may_be_of_any_kind(self, store: Store) -> None:
        assert await store.first_record(CommittedId(0)) is None
        writing = Writing(store).append(1, b"aa")
        writing.add(Kind.CLOSE, 1)
        saved = await writing.append(2, b"dddd").save()
        for after, record in enumerate(saved):
            found = await store.first_record(CommittedId(after))
            assert found is not None
            assert (found.committed_id, found.committed_at_us) == (record.committed_id, record.committed_at_us)
        assert await store.first_record(store.head) is None

    @over_store
    async def test_count_counts_what_the_log_holds(self, store: Store) -> None:
        assert await store.count() == Counts(0, 0, 0, 0)
        writing = Writing(store).append(1, b"aa", b"bb")
        writing.add(Kind.CLOSE, 1)
        await writing.save()
        assert await store.count() == Counts(2, 0, 2, 4)
        await store.erase(TopicId(1), MUCH, 1)
        assert await store.count() == Counts(1, 0, 1, 2)

    # Tags

    @over_store
    async def test_tags_are_listed_by_code_point_with_their_newest_records(self, store: Store) -> None:
        assert await store.list_tags("", "", 10) == []
        assert await store.last_tagged("a") == 0
        # By UTF-16 code units, the last two would swap; by a locale, é would come next to e.
        names = ["A", "a", "a\0b", "a b", "a%b", "a/b", "ab", "b", "z", "é", "\uffff", "\U0001f600"]
        writing = Writing(store)
        for name in reversed(names):
            writing.tag(name)
        await writing.tag("a", "z").tag("b").save()
        listed = await store.list_tags("", "", 100)
        assert [name for name, _ in listed] == names
        assert listed == [(name, await store.last_tagged(name)) for name in names]
        assert dict(listed)["a"] == dict(listed)["z"] == 13
        assert dict(listed)["b"] == 14

    @over_store
    async def test_every_page_of_tags_continues_after_the_last_one(self, store: Store) -> None:
        for commit in range(3):  # so that a store that moves its records meanwhile has some in each place
            writing = Writing(store)
            for number in range(commit, 20, 2):
                writing.tag(f"p/{number:02d}", "q")
            await writing.save()
        expected = [*[f"p/{number:02d}" for number in range(20)], "q"]
        for limit in (1, 2, 7, 20, 21, 22):
            found: list[str] = []
            while page := await store.list_tags("", found[-1] if found else "", limit):
                assert len(page) <= limit
                found += [tag for tag, _ in page]
            assert found == expected
        assert [tag for tag, _ in await store.list_tags("", "p/17x", 2)] == ["p/18", "p/19"]
        assert await store.list_tags("", "zzz", 2) == []

    @over_store
    async def test_a_prefix_of_tags_is_plain_text(self, store: Store) -> None:
        names = ["a", "a%", "a*b", "a/1", "a/2", "a_b", "ab", "b", "é/1"]
        await Writing(store).tag(*names).save()
        for prefix in ("", "a", "a/", "a%", "a*", "a_", "A", "é", "b", "bb", "c", "\U0010ffff"):
            wanted = [name for name in names if name.startswith(prefix)]
            assert [tag for tag, _ in await store.list_tags(prefix, "", 10)] == wanted
        assert [tag for tag, _ in await store.list_tags("a/", "a/1", 10)] == ["a/2"]
        assert [tag for tag, _ in await store.list_tags("a/", "Z", 1)] == ["a/1"]
        assert await store.list_tags("a/", "b", 10) == []

    @over_store
    async def test_a_tag_without_records_is_not_listed(self, store: Store) -> None:
        await Writing(store).tag("a", "b").tag("b").save()
        one, two = CommittedId(1), CommittedId(2)
        await store.erase_tagged([one], [("a", one), ("b", one)])
        assert await store.list_tags("", "", 10) == [("b", two)]
        await Writing(store).tag("a").save()
        assert await store.list_tags("", "", 10) == [("a", 3), ("b", two)]
        await store.erase_tagged([two], [("b", two)])
        assert await store.list_tags("", "", 10) == [("a", 3)]
        records = await store.read_tagged(["a", "b"], CommittedId(0), store.head, 10, MUCH)
        assert [record.committed_id for record in records] == [3]

    # Erasing

    @over_store
    async def test_erase_removes_the_oldest_first_up_to_its_limit(self, store: Store) -> None:
        saved = await Writing(store).append(1, b"a", b"b").append(2, b"kept").append(1, b"c", b"d", b"e").save()
        assert await store.erase(TopicId(1), MUCH, 2) == 2
        assert await store.read(TopicId(1), 0, 2, MUCH) is None
        chunk = await store.read(TopicId(1), 2, 5, MUCH)
        assert chunk is not None
        assert (chunk.start, chunk.end, chunk.data) == (2, 5, b"cde")
        assert await self._log(store) == saved[2:]
        assert await store.erase(TopicId(1), MUCH, 100) == 3
        assert await store.erase(TopicId(1), MUCH, 100) == 0
        assert await self._data(store, 2) == b"kept"
        assert await self._log(store) == [saved[2]]

    @over_store
    async def test_erase_removes_only_records_that_end_by_a_position(self, store: Store) -> None:
        await Writing(store).append(1, b"0123", b"4567", b"89").save()
        assert await store.erase(TopicId(1), 3, 100) == 0
        assert await store.erase(TopicId(1), 7, 100) == 1
        chunk = await store.read(TopicId(1), 4, 10, MUCH)
        assert chunk is not None
        assert (chunk.start, chunk.data) == (4, b"456789")
        assert await store.erase(TopicId(1), 8, 100) == 1
        assert await store.erase(TopicId(1), 8, 100) == 0
        assert await store.erase(TopicId(1), 10, 100) == 1

    @over_store
    async def test_erase_leaves_everything_that_is_not_data(self, store: Store) -> None:
        writing = Writing(store)
        writing.add(Kind.CREATE, 1, b"about")
        writing.append(1, b"gone")
        writing.add(Kind.DELETE, 1)
        writing.changes = {note("a"): Note("kept", 5)}
        created, _, deleted = await writing.save()
        assert await store.erase(TopicId(1), MUCH, 100) == 1
        assert await self._log(store) == [created, deleted]
        assert await store.get(note("a")) == Note("kept", 5)
        assert await store.due(NOTES, 5, 1) == ["a"]

    @over_store
    async def test_the_head_stays_when_the_newest_records_are_erased(self, store: Store) -> None:
        writing = Writing(store)
        await writing.append(1, b"a", b"b", b"c").save()
        assert await store.erase(TopicId(1), MUCH, 100) == 3
        assert store.head == 3
        assert await self._log(store) == []
        (record,) = await writing.append(1, b"d").save()
        assert record.committed_id == 4
        assert await self._log(store) == [record]

    @over_store
    async def test_erasing_during_other_writes_and_reads_loses_nothing_else(self, store: Store) -> None:
        writing = Writing(store)
        await writing.append(1, *(b"old" for _ in range(100))).append(2, b"x" * 50).save()

        async def erase() -> int:
            gone = 0
            while some := await store.erase(TopicId(1), MUCH, 9):
                gone += some
            return gone

        async def write() -> None:
            for _ in range(20):
                await writing.append(2, b"new").save()

        async def read() -> None:
            for _ in range(20):
                assert (await self._data(store, 2)).startswith(b"x" * 50)

        gone, *_ = await asyncio.gather(erase(), write(), read())
        assert gone == 100
        assert await self._data(store, 2) == b"x" * 50 + b"new" * 20
        assert store.head == 121

    # Reading helpers

    @staticmethod
    async def _data(store: Store, topic: int, bytes_max: int = MUCH) -> bytes:
        """Return all data of a topic, read page by page."""
        parts: list[bytes] = []
        position = 0
        while chunk := await store.read(TopicId(topic), position, MUCH, bytes_max):
            assert chunk.start == position
            assert chunk.end == position + len(chunk.data) > position
            parts.append(chunk.data)
            position = chunk.end
        return b"".join(parts)

    @staticmethod
    async def _log(store: Store, bytes_max: int = MUCH) -> list[Record]:
        """Return all records of the log, read page by page."""
        return [record async for record in read_whole_log(store, bytes_max)]


class DurableStoreContract(StoreContract):
    """What a store on disk must do as well."""

    @over_store
    async def test_a_save_that_raises_changes_nothing(self, store: Store) -> None:
        writing = Writing(store)
        writing.changes = {note("a"): Note("kept", 5)}
        await writing.append(1, b"kept").save()
        bad: dict[Key, Any] = {note("a"): Note("lost", 6), note("new"): Note("lost"), note("bad"): Unencodable()}
        lost = Writing(store, writing.tails).append(1, b"lost")
        # Each store may raise its own error, so any will do.
        (refusal,) = await asyncio.gather(store.save(bad, lost.records, lost.head), return_exceptions=True)
        assert isinstance(refusal, Exception)
        assert store.head == 1
        assert await store.load([note("a"), note("new")]) == {note("a"): Note("kept", 5), note("new"): None}
        assert await store.get(note("new")) is None
        assert await store.scan(NOTES, "", "", 10) == [("a", Note("kept", 5))]
        assert await store.due(NOTES, MUCH, 10) == ["a"]
        assert await self._data(store, 1) == b"kept"
        assert len(await self._log(store)) == 1
        await writing.append(1, b" again").save()
        assert await self._data(store, 1) == b"kept again"

    @over_reopened_store
    async def test_everything_survives_a_restart(self) -> None:
        async with self.opened() as store:
            writing = Writing(store)
            writing.add(Kind.CREATE, 1, b"about")
            writing.add(Kind.APPEND, 1, b"\0data", messages=3, source="producer é")
            writing.changes = {note("é\0x"): Note("one", 5), note("b"): Note(), count("c"): Count(7)}
            saved = await writing.save()
            await store.save({note("b"): None}, [], store.head)
        async with self.opened() as store:
            assert store.head == 2
            assert store.broken is None
            assert await self._log(store) == saved
            assert await self._data(store, 1) == b"\0data"
            assert await store.scan(NOTES, "", "", 10) == [("é\0x", Note("one", 5))]
            assert await store.load([count("c"), note("b")]) == {count("c"): Count(7), note("b"): None}
            assert await store.due(NOTES, 5, 10) == ["é\0x"]

    @over_reopened_store
    async def test_the_head_survives_erasing_and_a_restart(self) -> None:
        async with self.opened() as store:
            await Writing(store).append(1, b"a", b"b").save()
            assert await store.erase(TopicId(1), MUCH, 10) == 2
        async with self.opened() as store:
            assert store.head == 2
            (record,) = await Writing(store, {1: 2}).append(1, b"c").save()
            assert record.committed_id == 3
        async with self.opened() as store:
            assert store.head == 3
            assert await self._log(store) == [record]

    @over_reopened_store
    async def test_opening_and_closing_changes_nothing(self) -> None:
        async with self.opened() as store:
            await Writing(store).append(1, b"a").save()
        for _ in range(3):
            async with self.opened() as store:
                assert store.head == 1
                assert await self._data(store, 1) == b"a"


async def read_whole_log(store: Store, bytes_max: int = MUCH) -> AsyncIterator[Record]:
    """Yield every record of a store, read page by page, and check that the ids ascend."""
    after = CommittedId(0)
    while page := await store.read_log(after, store.head, bytes_max):
        assert_ascending(after, page)
        for record in page:
            yield record
        after = page[-1].committed_id


def assert_ascending(after: CommittedId, page: Iterable[Record]) -> None:
    """Check that committed ids grow from one record to the next."""
    for record in page:
        assert record.committed_id > after
        after = record.committed_id


class Unencodable:
    """A value that no store can encode."""

    due_us = None
