"""Pages of the sync protocol and of the log: each is complete, in order, and as new as it must be."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from mainstem.testing.history.calls import AnyCall, LogPage, PartitionPage, SyncPage
from mainstem.testing.history.entries import Entries, Entry
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation


class Partitions:
    """The committed ids of the events of each partition, in order."""

    def __init__(self, entries: Entries) -> None:
        self._ids: dict[str, list[int]] = defaultdict(list)
        for entry in entries.events.values():
            if entry.event is not None:
                for name in entry.event.partitions:
                    self._ids[name].append(entry.event.committed_id)
        for ids in self._ids.values():
            ids.sort()

    def between(self, partitions: Iterable[str], after: int, until: int) -> list[int]:
        """Return the ids of the events of any of these partitions in this range, in order."""
        found: set[int] = set()
        for name in partitions:
            ids = self._ids.get(name, [])
            found.update(ids[bisect_right(ids, after) : bisect_right(ids, until)])
        return sorted(found)


def check_pages(calls: Iterable[AnyCall], entries: Entries, partitions: Partitions) -> Iterator[Violation]:
    head = Highest(
        (entry.known, committed_id, entry) for committed_id, group in entries.by_id.items() for entry in group
    )
    heads = _find_heads(entries)
    last: dict[str, SyncPage] = {}
    for call in calls:
        if isinstance(call, SyncPage) and call.accepted:
            before = last.get(call.client)
            last[call.client] = call
            yield from _check_sync_page(call, partitions)
            yield from _check_cycle(call, before, head)
        elif isinstance(call, PartitionPage) and call.refusal == "invalid_offset":
            yield Violation("offset refused", f"{call.since} is the end of an earlier page", (call,))
        elif isinstance(call, PartitionPage) and call.accepted:
            yield from _check_partition_page(call, partitions, heads)
        elif isinstance(call, LogPage) and call.accepted:
            yield from _check_log_page(call, entries, head)


def _find_heads(entries: Entries) -> dict[str, Highest[Entry]]:
    """Return which committed id of each partition was the highest that was known at any time."""
    known: dict[str, list[tuple[float, int, Entry]]] = defaultdict(list)
    for entry in entries.events.values():
        if entry.event is not None:
            for name in entry.event.partitions:
                known[name].append((entry.known, entry.event.committed_id, entry))
    return {name: Highest(found) for name, found in known.items()}


def _check_sync_page(page: SyncPage, partitions: Partitions) -> Iterator[Violation]:
    until = page.next if page.has_more else page.sync_to
    yield from _check_events(page, partitions.between(page.partitions, page.since, until))


def _check_partition_page(
    page: PartitionPage, partitions: Partitions, heads: dict[str, Highest[Entry]]
) -> Iterator[Violation]:
    yield from _check_events(page, partitions.between((page.partition,), page.since, page.next))
    if page.up_to_date and page.partition in heads:
        yield from _check_age(page, page.next, heads[page.partition])


def _check_events(page: SyncPage | PartitionPage, expected: Sequence[int]) -> Iterator[Violation]:
    ids = [event.committed_id for event in page.events]
    yield from _check_ascending(page, ids)
    missing, extra = set(expected).difference(ids), set(ids).difference(expected)
    if missing:
        yield Violation("gap in a page of events", f"{_list(missing)} after {page.since}", (page,))
    if extra:
        yield Violation("outside the page of events", f"{_list(extra)} after {page.since}", (page,))
    if page.next != (ids[-1] if ids else page.since):
        yield Violation("wrong cursor", f"the next cursor is {page.next} after {ids[-1:] or page.since}", (page,))


def _check_ascending(page: SyncPage | PartitionPage | LogPage, ids: Sequence[int]) -> Iterator[Violation]:
    for first, second in pairwise(ids):
        if first >= second:
            yield Violation("page out of order", f"{second} follows {first}", (page,))


def _check_cycle(page: SyncPage, before: SyncPage | None, head: Highest[Entry]) -> Iterator[Violation]:
    if before is not None and before.has_more and (before.partitions, before.next) == (page.partitions, page.since):
        if page.sync_to != before.sync_to:
            detail = f"from {before.sync_to} to {page.sync_to}"
            yield Violation("end of a cycle moved", detail, (before, page))
        return
    yield from _check_age(page, page.sync_to, head)


def _check_age(page: SyncPage | PartitionPage | LogPage, reached: int, head: Highest[Entry]) -> Iterator[Violation]:
    known = head.before(page.start)
    if known is not None and reached < known[0]:
        detail = f"it reaches {reached}, although {known[1].name!r} was known as {known[0]}"
        yield Violation("stale page", detail, (*known[1].proof, page))


def _check_log_page(page: LogPage, entries: Entries, head: Highest[Entry]) -> Iterator[Violation]:
    shown = {row.message for row in page.rows} | {event.id for event in page.events}
    numbers = sorted({row.committed_id for row in page.rows} | {event.committed_id for event in page.events})
    if numbers and not page.after < numbers[0] <= numbers[-1] <= page.next:
        yield Violation("outside the log page", f"{numbers[0]} to {numbers[-1]}", (page,))
    yield from _check_ascending(page, [event.committed_id for event in page.events])
    if page.up_to_date:
        yield from _check_age(page, page.next, head)
    for committed_id in range(page.after + 1, page.next + 1):
        for entry in entries.by_id.get(committed_id, ()):
            gone = entry.place is not None and entries.may_be_deleted(entry.place.stream, page.latest)
            if entry.name not in shown and not gone:
                yield Violation("gap in the log", f"{entry.name!r}, {committed_id}, is missing", (*entry.proof, page))


def _list(ids: Iterable[int]) -> str:
    some = sorted(ids)
    return ", ".join(map(str, some[:5])) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
