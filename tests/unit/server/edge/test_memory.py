"""Which connections are shed when all of them together hold too much memory."""

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


def test_nothing_is_shed_within_the_budget(budget):
    holders = [Holder() for _ in range(10)]
    for holder in holders:
        budget.hold(holder, 10)
    assert budget.total == 100
    assert not any(holder.was_shed for holder in holders)


def test_the_connection_that_has_held_memory_longest_is_shed_first(budget):
    first, second, third = Holder(), Holder(), Holder()
    budget.hold(first, 40)
    budget.hold(second, 40)
    budget.hold(first, 50)  # it grew, but it still began first
    budget.hold(third, 40)
    assert (first.was_shed, second.was_shed, third.was_shed) == (True, False, False)
    assert budget.total == 80


def test_only_as_many_connections_are_shed_as_needed(budget):
    holders = [Holder() for _ in range(5)]
    for holder in holders:
        budget.hold(holder, 20)
    last = Holder()
    budget.hold(last, 70)
    assert [holder.was_shed for holder in holders] == [True, True, True, True, False]
    assert (last.was_shed, budget.total) == (False, 90)


def test_a_connection_that_does_not_stall_is_spared(budget):
    honest, stalling = Holder(stalls=False), Holder()
    budget.hold(honest, 60)
    budget.hold(stalling, 30)
    budget.hold(honest, 80)
    assert (honest.was_shed, stalling.was_shed) == (False, True)


def test_a_request_beyond_the_budget_sheds_only_itself(budget):
    honest, greedy = Holder(stalls=False), Holder(stalls=False)
    budget.hold(honest, 60)
    budget.hold(greedy, 50)
    assert (honest.was_shed, greedy.was_shed) == (False, True)
    assert budget.total == 60


def test_released_memory_can_be_used_again(budget):
    first, second = Holder(), Holder()
    budget.hold(first, 90)
    budget.hold(first, 0)
    budget.hold(second, 100)
    assert (first.was_shed, second.was_shed, budget.total) == (False, False, 100)
    budget.hold(first, 0)
    assert budget.total == 100
