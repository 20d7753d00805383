"""`/v1/log/cuts`: where to divide a range of the log, so that several readers get about the same number of bytes.

The work is bounded, however long the range is. The range is divided into windows of ids, and the beginning of each is
measured: in a range of up to `CUT_WINDOWS` * `CUT_SAMPLE_IDS` ids these are all records, in a longer one a sample.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import BadQuery
from mainstem.log.records import Size, TopicId
from mainstem.log.store import Store


class Cut(msgspec.Struct, frozen=True, order=True):
    """A point between two messages: after `position` messages of the record that follows the committed id `after`."""

    after: int
    position: int = 0


class Division(msgspec.Struct, frozen=True):
    """How much data a range holds, and where to divide it."""

    rows: int
    bytes: int
    exact: bool
    """Whether all records were measured, and not a sample."""
    cuts: list[Cut]


class CutQuery(msgspec.Struct, frozen=True):
    after: int
    until: int
    parts: int = 1
    """Into how many parts to divide the range."""
    bytes_min: int = 0
    """Make fewer parts rather than parts with fewer bytes than this."""
    bytes_max: int = limits.INTEGER_MAX
    """Make more parts rather than parts with more bytes than this."""
    rows_max: int = limits.INTEGER_MAX
    """Make more parts rather than parts with more messages than this."""

    def count_parts(self, size: int) -> int:
        """Return how many parts of equal size to make of so many bytes."""
        wanted = min(self.parts, size // self.bytes_min) if self.bytes_min else self.parts
        return max(wanted, -(-size // self.bytes_max), 1)


class Window(NamedTuple):
    """A range of ids, and how much data it holds, or probably holds."""

    after: int
    until: int
    rows: float
    bytes: float
    exact: bool


def parse_cut_query(query: Mapping[str, int], head: int) -> CutQuery:
    """Return the query with these parameters. Raises `BadQuery` if it asks for too many parts."""
    for name in ("parts", "max_bytes", "max_rows"):
        if query.get(name) == 0:
            raise BadQuery(f"{name} must be at least 1")
    if query.get("parts", 1) > limits.LOG_CUTS_MAX:
        raise BadQuery(f"parts must be at most {limits.LOG_CUTS_MAX}")
    return CutQuery(
        query.get("after", 0),
        min(query.get("until", head), head),
        query.get("parts", 1),
        query.get("min_bytes", 0),
        query.get("max_bytes", limits.INTEGER_MAX),
        query.get("max_rows", limits.INTEGER_MAX),
    )


async def divide(store: Store, query: CutQuery, topics: Collection[TopicId] | None = None) -> Division:
    """Return where to divide a range. Only the data of these topics counts; None means all."""
    windows = await _measure(store, query, topics)
    rows, size = sum(window.rows for window in windows), sum(window.bytes for window in windows)
    parts = query.count_parts(int(size))
    if parts + rows // query.rows_max > limits.LOG_CUTS_MAX:
        raise BadQuery(
            f"that would be {int(parts + rows // query.rows_max)} parts, and the most is {limits.LOG_CUTS_MAX}: allow"
            " larger ones"
        )
    cuts: set[Cut] = set()
    step = size / parts
    by_bytes = _locate([part / parts for part in range(1, parts)], _weigh(windows))
    by_rows = _locate(
        [number / rows for number in range(query.rows_max, int(rows) + 1, query.rows_max)] if rows else [],
        [window.rows for window in windows],
    )
    for number, window in enumerate(windows):
        if number not in by_bytes and number not in by_rows:
            continue
        if not window.exact:
            length = window.until - window.after
            cuts |= {
                Cut(window.after + int(length * at)) for at in [*by_bytes.get(number, ()), *by_rows.get(number, ())]
            }
            continue
        ids = range(window.after + 1, window.until + 1)
        records = await store.sizes([(id_ - 1, id_) for id_ in ids], topics)
        measured = Measured(ids, records)
        cuts |= {measured.cut_by_bytes(window.bytes * at, step) for at in by_bytes.get(number, ())}
        cuts |= {measured.cut_by_rows(round(window.rows * at)) for at in by_rows.get(number, ())}
    within = sorted(cut for cut in cuts if Cut(query.after) < cut < Cut(query.until))
    return Division(int(rows), int(size), all(window.exact for window in windows), within)


async def _measure(store: Store, query: CutQuery, topics: Collection[TopicId] | None) -> list[Window]:
    ids = query.until - query.after
    count = max(min(limits.LOG_CUT_WINDOWS, ids), 1)
    ends = [query.after + ids * number // count for number in range(count + 1)]
    ranges = [(first, last) for first, last in pairwise(ends) if first < last]
    samples = [(first, min(last, first + limits.LOG_CUT_SAMPLE_IDS)) for first, last in ranges]
    windows = []
    for (first, last), (_, end), size in zip(ranges, samples, await store.sizes(samples, topics), strict=True):
        scale = (last - first) / (end - first)
        windows.append(Window(first, last, size.rows * scale, size.bytes * scale, end == last))
    return windows


def _weigh(windows: Sequence[Window]) -> list[float]:
    """Return the weight of each window. A single large record in a sample must not outweigh everything else, so half of
    the weight of sampled windows is their number of ids."""
    if all(window.exact for window in windows):
        return [window.bytes for window in windows]
    ids, size = sum(window.until - window.after for window in windows), sum(window.bytes for window in windows)
    return [(window.until - window.after) / ids + (window.bytes / size if size else 0) for window in windows]


def _locate(goals: Sequence[float], weights: Sequence[float]) -> dict[int, list[float]]:
    """Return, by the number of a window, where within it these fractions of the whole weight are."""
    total = sum(weights)
    ends = list(accumulate(weights))
    found: dict[int, list[float]] = {}
    number = 0
    for goal in goals:
        while number < len(ends) - 1 and ends[number] < goal * total:
            number += 1
        if total and weights[number]:
            within = 1 - (ends[number] - goal * total) / weights[number]
            found.setdefault(number, []).append(min(max(within, 0.0), 1.0))
    return found


class Measured:
    """Records whose sizes are known. A cut is found by bisection: a query may ask for thousands of them."""

    def __init__(self, ids: Sequence[int], records: Sequence[Size]) -> None:
        self._ids = ids
        self._records = records
        self._rows = list(accumulate(record.rows for record in records))
        self._bytes = list(accumulate(record.bytes for record in records))

    def cut_by_bytes(self, goal: float, step: float) -> Cut:
        """Return the cut that is nearest to `goal` bytes. Only a record that is large for parts of `step` bytes is
        divided: every reader of a part of a record reads the record from its beginning."""
        number = bisect_left(self._bytes, max(goal, 1))
        if number == len(self._records):
            return Cut(self._ids[-1])
        id_, record = self._ids[number], self._records[number]
        before = self._bytes[number] - record.bytes
        fraction = (goal - before) / record.bytes
        if record.rows > 1 and 2 * record.bytes > step:
            return _cut_within(id_, record, round(record.rows * fraction))
        return Cut(id_ - 1 if fraction < 0.5 else id_)

    def cut_by_rows(self, goal: int) -> Cut:
        """Return the cut after exactly `goal` messages."""
        number = bisect_left(self._rows, goal)
        if number == len(self._records):
            return Cut(self._ids[-1])
        record = self._records[number]
        return _cut_within(self._ids[number], record, goal - self._rows[number] + record.rows)


def _cut_within(id_: int, record: Size, position: int) -> Cut:
    return Cut(id_) if position >= record.rows else Cut(id_ - 1, position)
