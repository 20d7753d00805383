"""The view: what a batch of commands reads and changes, and that a refused command leaves nothing in it."""

import pytest

from mainstem.log.commands import View
from mainstem.log.records import CommittedId, Kind, TopicId
from mainstem.testing.store_contract import Count, count

NOW_US = 1_000_000


class Refused(Exception):
    pass


class Steps:
    """A command that takes the given steps, and then returns or raises."""

    size = 0

    def __init__(self, *steps: tuple, fails: bool = False) -> None:
        self.steps = steps
        self.fails = fails

    def needs(self) -> list:
        return []

    def apply(self, view: View) -> str:
        for name, *args in self.steps:
            getattr(view, name)(*args)
        if self.fails:
            raise Refused
        return "done"


def new_view(**numbers: int | None) -> View:
    states = {count(name): None if number is None else Count(number) for name, number in numbers.items()}
    return View(states, CommittedId(10), NOW_US)


def append(data: bytes = b"x") -> tuple:
    return ("append", Kind.APPEND, TopicId(1), 0, len(data), 1, data)


def test_a_view_returns_loaded_states_until_they_are_changed() -> None:
    view = new_view(a=1, b=None)
    assert view.get(count("a")) == Count(1)
    assert view.get(count("b")) is None
    view.put(count("a"), Count(2))
    assert view.get(count("a")) == Count(2)
    view.put(count("a"), None)
    assert view.get(count("a")) is None
    assert view.changes == {count("a"): None}


def test_a_state_that_was_not_loaded_is_an_error_and_not_none() -> None:
    with pytest.raises(KeyError):
        new_view(a=1).get(count("b"))


def test_records_get_the_next_ids_and_the_time_of_the_batch() -> None:
    view = new_view()
    assert view.append(Kind.APPEND, TopicId(3), 0, 2, 1, b"ab", "p") == 11
    assert view.append(Kind.CLOSE, TopicId(3), 2, 2) == 12
    assert view.head == 12
    first, second = view.records
    assert (first.committed_id, first.committed_at_us, first.topic, first.data) == (11, NOW_US, 3, b"ab")
    assert (first.start, first.end, first.messages, first.source) == (0, 2, 1, "p")
    assert (second.committed_id, second.kind, second.data, second.source) == (12, Kind.CLOSE, b"", None)


def test_a_record_without_a_topic_begins_one_with_its_own_id() -> None:
    view = new_view()
    view.append(Kind.APPEND, TopicId(1), 0, 1)
    created = view.append(Kind.CREATE, None, 0, 0)
    assert (view.records[1].topic, created) == (12, 12)


def test_running_a_command_returns_its_outcome() -> None:
    view = new_view(a=1)
    assert view.run(Steps(("put", count("a"), Count(2)), append())) == "done"
    assert view.changes == {count("a"): Count(2)}
    assert view.head == 11


def test_a_refused_command_leaves_no_record_and_no_change() -> None:
    view = new_view(a=1, b=None)
    with pytest.raises(Refused):
        view.run(Steps(("put", count("a"), Count(2)), ("put", count("b"), Count(3)), append(), fails=True))
    assert view.changes == {}
    assert view.records == []
    assert view.head == 10
    assert view.get(count("a")) == Count(1)
    assert view.get(count("b")) is None


def test_a_refused_command_restores_what_earlier_ones_of_the_batch_wrote() -> None:
    view = new_view(a=1, b=1, c=1)
    view.run(Steps(("put", count("a"), Count(2)), ("put", count("b"), None), append(b"kept")))
    with pytest.raises(Refused):
        view.run(
            Steps(
                ("put", count("a"), Count(3)),
                ("put", count("a"), None),
                ("put", count("b"), Count(3)),
                ("put", count("c"), None),
                append(b"lost"),
                append(b"lost"),
                fails=True,
            )
        )
    assert view.changes == {count("a"): Count(2), count("b"): None}
    assert [record.data for record in view.records] == [b"kept"]
    assert view.get(count("b")) is None
    assert view.get(count("c")) == Count(1)


def test_the_next_command_gets_the_ids_of_a_refused_one() -> None:
    view = new_view()
    with pytest.raises(Refused):
        view.run(Steps(append(), append(), fails=True))
    view.run(Steps(append(b"next")))
    assert [(record.committed_id, record.data) for record in view.records] == [(11, b"next")]


def test_only_the_refused_command_is_undone_and_not_the_one_before() -> None:
    view = new_view(a=1)
    view.run(Steps(("put", count("a"), Count(2))))
    for _ in range(2):
        with pytest.raises(Refused):
            view.run(Steps(fails=True))
    assert view.get(count("a")) == Count(2)
