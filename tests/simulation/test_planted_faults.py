"""The simulation finds faults that are planted in the server, within a few seeds."""

import msgspec
import pytest

from mainstem.log.records import Kind
from mainstem.log.spaces import SpaceNumber
from mainstem.log.store.sqlite import database, journal, queries
from mainstem.log.store.sqlite.recent import Recent
from mainstem.streams import reaper
from mainstem.streams.commands import delete, fork
from mainstem.streams.commands.trim import Trim
from mainstem.streams.reaper import Reaper
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.forks import inherit
from mainstem.streams.rules.retention import find_surplus
from mainstem.streams.states import Segment
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.sync import pruner
from mainstem.sync.commands import NotePruned
from mainstem.sync.pages import MissingHistory, PageReader
from mainstem.testing.simulation.disk import SimulatedDirectWriter
from mainstem.testing.simulation.runner import run_seed

SEEDS_MAX = 60


def find_problem(seeds_max=SEEDS_MAX):
    """Return the first problem of the first seed that has one."""
    for seed in range(1, seeds_max + 1):
        problems = run_seed(seed).problems
        if problems:
            return problems[0]
    pytest.fail(f"{seeds_max} seeds have found nothing")


def test_it_finds_a_reply_before_the_sync(monkeypatch):
    write = SimulatedDirectWriter.write

    def write_without_waiting(self, file, pieces, offset):
        write(self, file, pieces, offset)
        done = self._loop.create_future()
        done.set_result(None)
        return done

    monkeypatch.setattr(SimulatedDirectWriter, "write", write_without_waiting)
    assert find_problem()


def test_it_finds_a_record_that_is_not_folded(monkeypatch):
    insert = queries.insert_records
    monkeypatch.setattr(queries, "insert_records", lambda db, records: insert(db, records[len(records) > 5 :]))
    assert find_problem()


def test_it_finds_a_batch_that_is_not_folded(monkeypatch):
    insert = database.insert_batches
    set_folded = queries.set_folded

    def insert_all_but_one(db, batches):
        found = insert(db, batches[: max(1, len(batches) - 1)])
        set_folded(db, batches[-1].number)
        return found

    monkeypatch.setattr(database, "insert_batches", insert_all_but_one)
    assert find_problem()


def test_it_finds_producers_that_are_forgotten(monkeypatch):
    save = queries.save_states
    monkeypatch.setattr(queries, "save_states", lambda db, rows: save(db, [row for row in rows if row[0] != 2]))
    assert "producer" in find_problem()


def test_it_finds_a_torn_batch_that_is_accepted(monkeypatch):
    def read_without_checksum(header, rest):
        store_id, number, size, *_ = journal.HEADER.unpack(header)
        content = bytes(rest[:size])
        try:
            journal.decode_content(content)
        except msgspec.DecodeError:
            return None
        return journal.Found(number, store_id, content) if number else None

    monkeypatch.setattr(journal, "read_batch", read_without_checksum)
    assert find_problem(seeds_max=200)


def test_it_finds_data_that_readers_lose_while_it_is_folded(monkeypatch):
    forget = Recent.forget
    monkeypatch.setattr(Recent, "forget", lambda self, folded: forget(self, folded + 1))
    assert find_problem()


def test_it_finds_wakes_that_are_lost_by_a_restart(monkeypatch):
    async def load_nothing(self):
        pass

    monkeypatch.setattr(Dispatcher, "_load_streams", load_nothing)
    assert find_problem() == "the server hangs"


def test_it_finds_a_stream_that_expires_too_early(monkeypatch):
    monkeypatch.setattr(lifecycle, "window_end", lambda ttl_s, now_us: now_us + ttl_s * lifecycle.SECOND_US // 2)
    assert find_problem().startswith(("vanished", "incarnation without a delete"))


def test_it_finds_a_stream_that_expires_too_late(monkeypatch):
    has_expired = lifecycle._has_expired
    monkeypatch.setattr(
        lifecycle, "_has_expired", lambda state, now_us, touched_us: has_expired(state, now_us - 300_000, touched_us)
    )
    assert find_problem().startswith("expired but alive")


def test_it_finds_a_trim_that_takes_one_append_too_many(monkeypatch):

    def find_more(state, oldest, now_us):
        found = find_surplus(state, oldest, now_us)
        return oldest[: min(len(found) + 1, len(oldest) - 1)] if found else found

    monkeypatch.setattr(reaper, "find_surplus", find_more)
    assert find_problem().startswith("trimmed too much")


@pytest.mark.slow
def test_it_finds_an_erasure_that_is_not_repeated_after_a_crash(monkeypatch):
    """The reaper erases what a trim has discarded, but it does not look for what an earlier trim has left."""
    apply, erase_trimmed = Trim.apply, Reaper._erase_trimmed
    trimmed = False

    def apply_and_note(self, view):
        nonlocal trimmed
        trimmed = apply(self, view)
        return trimmed

    async def erase_after_trim(self, path, topic):
        if trimmed:
            await erase_trimmed(self, path, topic)

    monkeypatch.setattr(Trim, "apply", apply_and_note)
    monkeypatch.setattr(Reaper, "_erase_trimmed", erase_after_trim)
    assert "was trimmed, but is in the log" in find_problem(seeds_max=300)


def test_it_finds_a_fork_that_shows_later_messages_of_its_source(monkeypatch):

    def inherit_all(source, position):
        *others, last = inherit(source, position) or (Segment(source.topic, 0),)
        return (*others, Segment(last.topic, source.tail))

    monkeypatch.setattr(fork, "inherit", inherit_all)
    assert find_problem()


def test_it_finds_a_fork_that_loses_its_data_with_its_source(monkeypatch):
    def discard(view, path, state):
        view.append(Kind.DELETE, state.topic, state.tail, state.tail)
        delete._discard_stream(view, path, state)

    monkeypatch.setattr(delete, "end_stream", discard)
    assert find_problem()


def test_it_finds_events_that_are_pruned_with_only_one_of_their_partitions(monkeypatch):
    monkeypatch.setattr(pruner, "prunable", lambda committed_id, floors: max(floors) >= committed_id)
    assert find_problem().startswith(("gap in", "lost event"))


def test_it_finds_events_that_a_crash_saves_from_being_pruned(monkeypatch):
    async def prune_and_note_first(self, name, state):
        await self.log.submit(NotePruned(name, state.floor))
        return await prune(self, name, state)

    prune = pruner.Pruner._prune
    monkeypatch.setattr(pruner.Pruner, "_prune", prune_and_note_first)
    assert "was pruned, but is in the log" in find_problem()


def test_it_finds_pages_that_do_not_say_what_was_pruned(monkeypatch):
    async def find_nothing(self, cycle, since):
        return MissingHistory([], [], (), 0)

    monkeypatch.setattr(PageReader, "_missing_history", find_nothing)
    assert find_problem().startswith("pruned without notice")


def test_it_finds_snapshots_that_are_forgotten(monkeypatch):
    save = queries.save_states
    forgotten = SpaceNumber.SNAPSHOTS
    monkeypatch.setattr(queries, "save_states", lambda db, rows: save(db, [row for row in rows if row[0] != forgotten]))
    assert "WrongSnapshot" in find_problem()
