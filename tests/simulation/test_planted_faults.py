"""The simulation finds faults that are planted in the server, within a few seeds."""

import pytest

from mainstem.log.store.sqlite import database, queries
from mainstem.log.store.sqlite.recent import Recent
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.testing.simulation.disk import SimulatedDirectWriter
from mainstem.testing.simulation.runner import run_seed

SEEDS_MAX = 60


def find_problem():
    """Return the first problem of the first seed that has one."""
    for seed in range(1, SEEDS_MAX + 1):
        problems = run_seed(seed).problems
        if problems:
            return problems[0]
    pytest.fail(f"{SEEDS_MAX} seeds have found nothing")


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


def test_it_finds_data_that_readers_lose_while_it_is_folded(monkeypatch):
    forget = Recent.forget
    monkeypatch.setattr(Recent, "forget", lambda self, folded: forget(self, folded + 1))
    assert find_problem()


def test_it_finds_wakes_that_are_lost_by_a_restart(monkeypatch):
    async def load_nothing(self):
        pass

    monkeypatch.setattr(Dispatcher, "_load_streams", load_nothing)
    assert find_problem() == "the server hangs"
