"""Checks whether one order explains a whole history. The time it takes grows little faster than the history."""

from collections import defaultdict
from collections.abc import Iterable

from mainstem.testing.history.broadcasts import check_broadcasts
from mainstem.testing.history.calls import AnyCall, LogPage
from mainstem.testing.history.contents import check_contents, check_final_log
from mainstem.testing.history.entries import Entries
from mainstem.testing.history.expiries import check_expiries
from mainstem.testing.history.order import check_order
from mainstem.testing.history.pages import Partitions, check_pages
from mainstem.testing.history.producers import check_producers
from mainstem.testing.history.tails import check_tails
from mainstem.testing.history.trims import check_trims
from mainstem.testing.history.violations import Violation


class Unfinished(ValueError):
    """The history does not end with a reading of the whole log, so that nothing can be said about lost data."""


def check_history(calls: Iterable[AnyCall], after: int = 0) -> list[Violation]:
    """Return every violation that the calls prove.

    The history must end with a reading of the whole log: the `LogPage` calls of one client, from the committed id
    `after` until a page that is up to date, which begin after every accepted call has ended. Of several such readings,
    each is checked.
    """
    history = list(calls)
    entries = Entries(history)
    partitions = Partitions(entries)
    violations = [
        *entries.violations,
        *check_contents(history, entries),
        *check_tails(history, entries),
        *check_expiries(history, entries),
        *check_trims(history, entries),
        *check_producers(history, entries),
        *check_order(entries),
        *check_pages(history, entries, partitions),
        *check_broadcasts(history, entries, partitions),
    ]
    readings = find_readings(history, after)
    others = max((call.end for call in history if call.end is not None and not isinstance(call, LogPage)), default=0.0)
    if not any(reading[0].start >= others for reading in readings):
        raise Unfinished("no reading of the whole log follows the last call of the history")
    for reading in readings:
        violations += check_final_log(reading, entries, reading[0].start, reading[-1].latest)
    return violations


def find_readings(calls: Iterable[AnyCall], after: int = 0) -> list[list[LogPage]]:
    """Return the readings of the whole log: pages of one client, each of which continues where the last one ended."""
    begun: dict[str, list[LogPage]] = defaultdict(list)
    complete: list[list[LogPage]] = []
    for call in calls:
        if not isinstance(call, LogPage) or not call.accepted:
            continue
        pages = begun[call.client]
        if call.after == after:
            pages.clear()
        elif not pages or pages[-1].next != call.after:
            continue
        pages.append(call)
        if call.up_to_date:
            complete.append(list(pages))
            pages.clear()
    return complete
