"""Who is shed when connections hold too much together."""

import pytest

from mainstem import limits
from mainstem.server.edge.memory import MemoryBudget


class Holder:
    def __init__(self, *, stalls=True):
        self.stalls = stalls
        self.was_shed = False

    def shed(self):
        self.was_shed = True


@pytest.fixture
def budget(monkeypatch):
    monkeypatch.setattr(limits, "CONNECTION_BYTES_TOTAL_MAX", 100)
    return MemoryBudget()


def test_nobody_is_shed_while_there_is_room(budget):
    holders = [Holder() for _ in range(10)]
    for holder in holders:
        budget.hold(holder, 10)
    assert budget.total == 100
    assert not any(holder.was_shed for holder in holders)


def test_whoever_has_held_something_longest_goes_first(budget):
    first, second, third = Holder(), Holder(), Holder()
    budget.hold(first, 40)
    budget.hold(second, 40)
    budget.hold(first, 50)  # it grew; it still began first
    budget.hold(third, 40)
    assert (first.was_shed, second.was_shed, third.was_shed) == (True, False, False)
    assert budget.total == 80


def test_as_many_go_as_must(budget):
    holders = [Holder() for _ in range(5)]
    for holder in holders:
        budget.hold(holder, 20)
    last = Holder()
    budget.hold(last, 70)
    assert [holder.was_shed for holder in holders] == [True, True, True, True, False]
    assert (last.was_shed, budget.total) == (False, 90)


def test_who_does_not_stall_is_spared(budget):
    honest, stalling = Holder(stalls=False), Holder()
    budget.hold(honest, 60)
    budget.hold(stalling, 30)
    budget.hold(honest, 80)
    assert (honest.was_shed, stalling.was_shed) == (False, True)


def test_who_asks_for_more_than_there_is_goes_alone(budget):
    honest, greedy = Holder(stalls=False), Holder(stalls=False)
    budget.hold(honest, 60)
    budget.hold(greedy, 50)
    assert (honest.was_shed, greedy.was_shed) == (False, True)
    assert budget.total == 60


def test_what_is_given_back_is_there_again(budget):
    first, second = Holder(), Holder()
    budget.hold(first, 90)
    budget.hold(first, 0)
    budget.hold(second, 100)
    assert (first.was_shed, second.was_shed, budget.total) == (False, False, 100)
    budget.hold(first, 0)
    assert budget.total == 100
