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
    ids = sorted(entries.by_id)
    last: dict[str, SyncPage] = {}
    truncated: dict[str, set[str]] = {}
    for call in calls:
        if isinstance(call, SyncPage) and call.accepted:
            before = last.get(call.client)
            last[call.client] = call
            if before is None or not _continues(call, before):
                truncated[call.client] = set()
            truncated[call.client].update(call.truncated)
            yield from _check_sync_page(call, partitions, entries, truncated[call.client])
            yield from _check_cycle(call, before, head)
        elif isinstance(call, PartitionPage) and call.refusal == "invalid_offset":
            yield Violation("offset refused", f"{call.since} is the end of an earlier page", (call,))
        elif isinstance(call, PartitionPage) and call.accepted:
            yield from _check_partition_page(call, partitions, entries, heads)
        elif isinstance(call, LogPage) and call.accepted:
            yield from _check_log_page(call, entries, ids, head)


def _find_heads(entries: Entries) -> dict[str, Highest[Entry]]:
    """Return which committed id of each partition was the highest that was known at any time."""
    known: dict[str, list[tuple[float, int, Entry]]] = defaultdict(list)
    for entry in entries.events.values():
        if entry.event is not None:
            for name in entry.event.partitions:
                known[name].append((entry.known, entry.event.committed_id, entry))
    return {name: Highest(found) for name, found in known.items()}


def _check_sync_page(
    page: SyncPage, partitions: Partitions, entries: Entries, truncated: set[str]
) -> Iterator[Violation]:
    """`truncated` is what the pages of the cycle have said so far."""
    until = page.next if page.has_more else page.sync_to
    expected = partitions.between(page.partitions, page.since, until)
    yield from _check_events(page, expected, entries, set(page.partitions).difference(truncated))
    # The last page of a cycle that reports pruned history moves the cursor past it, but not past the end of the cycle.
    reaches = page.sync_to if truncated and not page.has_more else 0
    yield from _check_cursor(page, reaches)


def _check_partition_page(
    page: PartitionPage, partitions: Partitions, entries: Entries, heads: dict[str, Highest[Entry]]
) -> Iterator[Violation]:
    expected = partitions.between((page.partition,), page.since, page.next)
    yield from _check_events(page, expected, entries, {page.partition})
    yield from _check_cursor(page)
    if page.up_to_date and page.partition in heads:
        yield from _check_age(page, page.next, heads[page.partition])


def _check_events(
    page: SyncPage | PartitionPage, expected: Sequence[int], entries: Entries, complete: set[str]
) -> Iterator[Violation]:
    """`complete` are the partitions of which nothing may be missing, not even what was pruned."""
    ids = [event.committed_id for event in page.events]
    yield from _check_ascending(page, [(committed_id, 0) for committed_id in ids])
    missing, extra = set(expected).difference(ids), set(ids).difference(expected)
    pruned = {number for number in missing if entries.may_be_erased(entries.by_id[number][0], page.latest)}
    if missing - pruned:
        yield Violation("gap in a page of events", f"{_list(missing - pruned)} after {page.since}", (page,))
    for number in sorted(pruned):
        entry = entries.by_id[number][0]
        if entry.event is not None and complete.intersection(entry.event.partitions):
            detail = f"{number} after {page.since} is gone, but the page does not say so"
            yield Violation("pruned without notice", detail, (*entry.proof, page))
    if extra:
        yield Violation("outside the page of events", f"{_list(extra)} after {page.since}", (page,))


def _check_cursor(page: SyncPage | PartitionPage, reaches: int = 0) -> Iterator[Violation]:
    """The next cursor is the last event, or the cursor of the request; or it lies between that and `reaches`."""
    last = page.events[-1].committed_id if page.events else page.since
    if not last <= page.next <= max(last, reaches):
        yield Violation("wrong cursor", f"the next cursor is {page.next} after {last}", (page,))


def _check_ascending(page: SyncPage | PartitionPage | LogPage, found: Sequence[tuple[int, int]]) -> Iterator[Violation]:
    """Check committed ids, each with the position of a message within its append."""
    for first, second in pairwise(found):
        if first >= second:
            yield Violation("page out of order", f"{second[0]} follows {first[0]}", (page,))


def _continues(page: SyncPage, before: SyncPage) -> bool:
    """Return whether a page belongs to the same cycle as the page before it."""
    return before.has_more and (before.partitions, before.next) == (page.partitions, page.since)


def _check_cycle(page: SyncPage, before: SyncPage | None, head: Highest[Entry]) -> Iterator[Violation]:
    if before is not None and _continues(page, before):
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


def _check_log_page(page: LogPage, entries: Entries, ids: Sequence[int], head: Highest[Entry]) -> Iterator[Violation]:
    """`ids` are all that are known, in order."""
    shown = {row.message for row in page.rows} | {event.id for event in page.events}
    numbers = sorted({row.committed_id for row in page.rows} | {event.committed_id for event in page.events})
    if numbers and not page.after < numbers[0] <= numbers[-1] <= page.next:
        yield Violation("outside the log page", f"{numbers[0]} to {numbers[-1]}", (page,))
    yield from _check_ascending(page, [(event.committed_id, 0) for event in page.events])
    yield from _check_ascending(page, [(row.committed_id, row.start.position) for row in page.rows])
    if page.up_to_date:
        yield from _check_age(page, page.next, head)
    for committed_id in ids[bisect_right(ids, page.after) : bisect_right(ids, page.next)]:
        for entry in entries.by_id[committed_id]:
            if entry.name not in shown and not entries.may_be_erased(entry, page.latest):
                yield Violation("gap in the log", f"{entry.name!r}, {committed_id}, is missing", (*entry.proof, page))


def _list(ids: Iterable[int]) -> str:
    some = sorted(ids)
    return ", ".join(map(str, some[:5])) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
