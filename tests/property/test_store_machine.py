"""Whatever the operations and their order, a store answers as a dict would."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem import limits
from mainstem.log.commands import Key, State
from mainstem.log.records import RECORD_BYTES, Chunk, CommittedId, Kind, Outline, Record, TopicId
from mainstem.log.store import MemoryStore, SqliteStore, Store
from mainstem.testing.loops import new_runner
from mainstem.testing.store_contract import COUNTS, MUCH, NOTES, NOW_US, Count, Note, count, note
from tests.support.examples import examples
from tests.support.quick_disks import PLAIN_DISK

pytestmark = pytest.mark.slow

# Few names, so that they collide; some sort differently in UTF-16, in bytes, and in a locale.
NAMES = st.text(st.sampled_from("aB/\0é\uffee\U0001f30a"), min_size=1, max_size=3)
PREFIXES = st.text(st.sampled_from("aB/\0é\uffee\U0001f30a"), max_size=2)
TOPICS = st.integers(1, 3).map(TopicId)
TIMES = st.none() | st.integers(-3, 6)
CHANGES = st.dictionaries(
    NAMES.map(note), st.none() | st.builds(Note, st.text(max_size=3), TIMES), max_size=4
) | st.dictionaries(NAMES.map(count), st.none() | st.builds(Count, st.integers(0, 9)), max_size=4)
KINDS = st.sampled_from([Kind.CREATE, *[Kind.APPEND] * 6, Kind.CLOSE, Kind.DELETE])
DRAFTS = st.lists(
    st.tuples(KINDS, TOPICS, st.binary(min_size=1, max_size=12), st.none() | st.sampled_from(["p", "é"])), max_size=12
)


class StoresAgainstADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = new_runner()
        self.limits = pytest.MonkeyPatch()
        self.directory = Path(tempfile.mkdtemp(prefix="mainstem-property-"))
        self.stores: list[Store] = [MemoryStore(), SqliteStore(self.directory, PLAIN_DISK)]
        self.states: dict[Key, State] = {}
        self.records: list[Record] = []
        self.tails: dict[TopicId, int] = {}
        self.head = CommittedId(0)

    @initialize(new_places_max=st.sampled_from([1, 5, limits.UNMERGED_APPENDS_MAX]))
    def open(self, new_places_max: int) -> None:
        self.limits.setattr(limits, "UNMERGED_APPENDS_MAX", new_places_max)
        for store in self.stores:
            self.runner.run(store.open())

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()
        self.limits.undo()
        shutil.rmtree(self.directory)

    def ask(self, method: str, *args: Any, **options: Any) -> Any:
        """Ask all stores, and return the answer, which must be the same for all."""
        ours, *others = [self.runner.run(getattr(store, method)(*args, **options)) for store in self.stores]
        for theirs in others:
            assert theirs == ours
        return ours

    def data_records(self, topic: TopicId) -> list[Record]:
        return [record for record in self.records if record.topic == topic and record.kind is Kind.APPEND]

    # Operations that change the stores

    @rule(changes=CHANGES, drafts=DRAFTS)
    def save(self, changes: dict[Key, State | None], drafts: list[tuple[Kind, TopicId, bytes, str | None]]) -> None:
        records: list[Record] = []
        for kind, topic, data, source in drafts:
            self.head = CommittedId(self.head + 1)
            start = self.tails.get(topic, 0)
            end = start + len(data) if kind is Kind.APPEND else start
            records.append(Record(self.head, NOW_US + self.head, kind, topic, start, end, 1, data, source))
            self.tails[topic] = end
        self.ask("save", changes, records, self.head)
        self.records += records
        for key, state in changes.items():
            if state is None:
                self.states.pop(key, None)
            else:
                self.states[key] = state

    @rule(topic=TOPICS, until=st.integers(0, 60) | st.just(MUCH), limit=st.integers(0, 4) | st.just(100))
    def erase(self, topic: TopicId, until: int, limit: int) -> None:
        gone = [record for record in self.data_records(topic) if record.end <= until][:limit]
        assert self.ask("erase", topic, until, limit) == len(gone)
        self.records = [record for record in self.records if record not in gone]

    @rule()
    def reopen(self) -> None:
        self.runner.run(self.stores[1].close())
        self.stores[1] = SqliteStore(self.directory, PLAIN_DISK)
        self.runner.run(self.stores[1].open())

    # Answers

    @invariant()
    def heads_are_what_was_saved_last(self) -> None:
        assert [store.head for store in self.stores] == [self.head] * 2

    @rule(names=st.lists(NAMES, max_size=4))
    def states_are_found_by_their_keys(self, names: list[str]) -> None:
        keys = [*map(note, names), *map(count, names)]
        assert self.ask("load", keys) == {key: self.states.get(key) for key in keys}
        assert self.ask("get_many", keys) == {key: self.states.get(key) for key in keys}
        for key in keys:
            assert self.ask("get", key) == self.states.get(key)

    @rule(space=st.sampled_from([NOTES, COUNTS]), prefix=PREFIXES, after=st.just("") | NAMES, limit=st.integers(1, 5))
    def scans_are_sorted_and_cut(self, space: Any, prefix: str, after: str, limit: int) -> None:
        names = sorted(
            key.name for key in self.states if key.space is space and key.name.startswith(prefix) and key.name > after
        )
        wanted = [(name, self.states[Key(space, name)]) for name in names[:limit]]
        assert self.ask("scan", space, prefix, after, limit) == wanted

    @rule(until_us=st.integers(-4, 7), limit=st.integers(1, 5))
    def due_names_come_earliest_first(self, until_us: int, limit: int) -> None:
        times = {
            key.name: state.due_us
            for key, state in self.states.items()
            if isinstance(state, Note) and state.due_us is not None and state.due_us <= until_us
        }
        found = self.ask("due", NOTES, until_us, limit)
        assert len(found) == min(limit, len(times))
        assert [times[name] for name in found] == sorted(times.values())[:limit]

    @rule(topic=TOPICS, where=st.floats(0, 1), until_where=st.floats(0, 1), bytes_max=st.integers(0, 40))
    def runs_are_whole_records_of_the_topic(
        self, topic: TopicId, where: float, until_where: float, bytes_max: int
    ) -> None:
        records = self.data_records(topic)
        if not records:
            assert self.ask("read", topic, 0, MUCH, bytes_max) is None
            return
        # Only positions that are still kept are read: callers must not ask for erased ones.
        first, last = records[0].start, records[-1].end
        start, until = first + int(where * (last - first)), first + int(until_where * (last - first + 3))
        run: list[Record] = []
        for record in records:
            fits = not run or record.end <= start + bytes_max
            if record.end > start and record.start < until and fits:
                run.append(record)
        wanted = Chunk(run[0].start, run[-1].end, b"".join(record.data for record in run)) if run else None
        assert self.ask("read", topic, start, until, bytes_max) == wanted

    @rule(topic=TOPICS, start=st.integers(0, 60), until=st.integers(0, 80), limit=st.integers(1, 5), back=st.booleans())
    def outlines_are_records_without_data(self, topic: TopicId, start: int, until: int, limit: int, back: bool) -> None:
        wanted = [
            Outline(record.start, record.end, record.messages, record.committed_at_us, record.committed_id)
            for record in self.data_records(topic)
            if record.end > start and record.start < until
        ]
        found = self.ask("outline", topic, start, until, limit, newest_first=back)
        assert found == (wanted[::-1] if back else wanted)[:limit]

    @rule(topic=TOPICS, where=st.floats(0, 1))
    def a_place_in_the_log_leads_to_a_place_in_the_topic(self, topic: TopicId, where: float) -> None:
        after = CommittedId(int(where * self.head))
        starts = [record.start for record in self.data_records(topic) if record.committed_id > after]
        assert self.ask("first_after", topic, after) == (starts[0] if starts else None)

    @precondition(lambda self: self.head > 0)
    @rule(where=st.floats(0, 1), reach=st.integers(0, 20), bytes_max=st.integers(0, 600))
    def pages_of_the_log_are_in_committed_order(self, where: float, reach: int, bytes_max: int) -> None:
        after = CommittedId(int(where * self.head))
        until = CommittedId(after + reach)
        wanted: list[Record] = []
        total = 0
        for record in self.records:
            if after < record.committed_id <= until:
                total += len(record.data) + RECORD_BYTES
                if wanted and total > bytes_max:
                    break
                wanted.append(record)
        assert self.ask("read_log", after, until, bytes_max) == wanted


TestStoresAgainstADict = StoresAgainstADict.TestCase
TestStoresAgainstADict.settings = settings(max_examples=examples(100), stateful_step_count=40)
