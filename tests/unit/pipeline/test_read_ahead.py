import threading
from collections.abc import Iterator

import pytest

from mainstem.pipeline.read_ahead import read_ahead


class Broken(Exception):
    pass


def test_every_item_comes_once_and_in_order():
    assert list(read_ahead(iter(range(1000)))) == list(range(1000))
    assert list(read_ahead(iter(()))) == []


def test_an_error_comes_after_the_items_before_it():
    def items() -> Iterator[int]:
        yield 1
        raise Broken

    found = read_ahead(items())
    assert next(found) == 1
    with pytest.raises(Broken):
        next(found)


def test_the_next_item_is_fetched_before_it_is_asked_for():
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    found = read_ahead(items())
    assert next(found) == 1
    assert second.wait(10)
    assert list(found) == [2]


def test_a_caller_that_stops_early_closes_the_items():
    closed = threading.Event()
    fetched = []

    def items() -> Iterator[int]:
        try:
            for number in range(1000):
                fetched.append(number)
                yield number
        finally:
            closed.set()

    found = read_ahead(items())
    assert next(found) == 0
    found.close()
    assert closed.wait(10)
    assert len(fetched) <= 4
