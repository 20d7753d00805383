"""Cuts: parts of about the same size, whatever the records look like, with bounded work."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadQuery
from mainstem.log.records import Size
from mainstem.log.store import MemoryStore
from mainstem.server.log_api.cuts import Cut, CutQuery, Division, divide, parse_cut_query


class Sizes(MemoryStore):
    """A log of which only the sizes of its records are known."""

    def __init__(self, sizes: list[Size] | dict[int, Size]) -> None:
        super().__init__()
        self.known = dict(enumerate(sizes, 1)) if isinstance(sizes, list) else sizes
        self.measured = 0

    async def sizes(self, ranges, topics=None):
        found = []
        for after, until in ranges:
            self.measured += until - after
            inside = [self.known.get(id_, Size(1, 100)) for id_ in range(after + 1, until + 1)]
            found.append(Size(sum(size.rows for size in inside), sum(size.bytes for size in inside)))
        return found


def run(store: Sizes, **query: int) -> Division:
    return asyncio.run(divide(store, CutQuery(0, query.pop("until", len(store.known)), **query)))


def count_rows(store: Sizes, division: Division) -> list[int]:
    """Return the number of rows of each part."""
    points = [(id_ - 1, position) for id_, size in sorted(store.known.items()) for position in range(size.rows)]
    ends = [Cut(0), *division.cuts, Cut(limits.INTEGER_MAX)]
    return [sum(first <= Cut(*point) < last for point in points) for first, last in pairwise(ends)]


def test_one_large_record_is_divided_and_small_ones_are_not():
    store = Sizes([*[Size(3, 30)] * 10, Size(1000, 10_000), *[Size(3, 30)] * 10])
    found = run(store, parts=4)
    assert all(cut.after == 10 and cut.position for cut in found.cuts)
    assert sum(count_rows(store, found)) == 1060
    assert max(count_rows(store, found)) < 300
    assert [cut.position for cut in run(Sizes([Size(3, 30)] * 100), parts=4).cuts] == [0, 0, 0]


def test_one_message_is_never_divided():
    assert run(Sizes([Size(1, 10**8)]), parts=8).cuts == []


def test_limits_of_bytes_decide_the_number_of_parts():
    store = Sizes([Size(1, 10)] * 100)
    assert len(run(store, parts=8, bytes_min=500).cuts) == 1
    assert len(run(store, bytes_max=100).cuts) == 9
    assert run(store, parts=8, bytes_min=10**6).cuts == []


sizes = st.lists(st.builds(Size, st.integers(0, 20), st.integers(0, 500)), min_size=1, max_size=40)


@given(sizes, st.integers(1, 10), st.integers(1, 30))
def test_no_part_has_more_rows_than_allowed_and_every_row_is_in_one(records, parts, rows_max):
    store = Sizes(records)
    found = run(store, parts=parts, rows_max=rows_max)
    assert found.cuts == sorted(set(found.cuts))
    assert sum(count_rows(store, found)) == sum(size.rows for size in records)
    assert max(count_rows(store, found)) <= rows_max


def test_a_long_range_is_sampled_and_a_large_record_in_the_sample_does_not_spoil_the_rest():
    ids = 100_000_000
    store = Sizes({1: Size(1000, 90_000_000)})
    found = run(store, until=ids, parts=100)
    assert not found.exact
    assert store.measured <= limits.LOG_CUT_WINDOWS * limits.LOG_CUT_SAMPLE_IDS
    ends = [0, *(cut.after for cut in found.cuts), ids]
    assert max(last - first for first, last in pairwise(ends)) <= 2 * ids // 100 + 1


def test_too_many_parts_are_refused():
    with pytest.raises(BadQuery, match="10000"):
        run(Sizes([Size(1, 1)] * 20_000), rows_max=1)
    with pytest.raises(BadQuery, match="parts must be at most"):
        parse_cut_query({"parts": 10_001}, 5)


def test_an_empty_range_has_no_cuts():
    assert run(Sizes([]), parts=5).cuts == []
    assert run(Sizes([Size(0, 0)] * 9), parts=5, rows_max=2).cuts == []
