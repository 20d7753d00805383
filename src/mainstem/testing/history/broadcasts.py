"""Broadcasts: after its pages, a connection gets every event of its partitions once, in order, except its own."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from mainstem.testing.history.calls import AnyCall, Broadcast, Submit, SyncPage
from mainstem.testing.history.entries import Entries
from mainstem.testing.history.pages import Partitions
from mainstem.testing.history.violations import Violation


def check_broadcasts(calls: Iterable[AnyCall], entries: Entries, partitions: Partitions) -> Iterator[Violation]:
    connections: dict[str, list[SyncPage | Broadcast]] = defaultdict(list)
    for call in calls:
        if isinstance(call, SyncPage | Broadcast) and call.accepted:
            connections[call.client].append(call)
    for client, received in connections.items():
        received.sort(key=lambda call: call.latest)
        yield from _check_connection(client, received, entries, partitions)


def _check_connection(
    client: str, received: list[SyncPage | Broadcast], entries: Entries, partitions: Partitions
) -> Iterator[Violation]:
    page: SyncPage | None = None
    subscribed: tuple[str, ...] = ()
    cursor = 0
    for call in received:
        if isinstance(call, SyncPage):
            page, cursor = call, call.sync_to
            if call.subscribes:
                subscribed = call.partitions
            continue
        event = call.event
        if page is None or not set(subscribed).intersection(event.partitions):
            yield Violation("broadcast without a subscription", f"{event.committed_id}", (call,))
            continue
        if page.has_more:
            yield Violation("broadcast within a cycle", f"{event.committed_id}", (page, call))
        if event.committed_id <= cursor:
            detail = f"{event.committed_id} arrived after {cursor}"
            yield Violation("broadcast repeated or out of order", detail, (page, call))
            continue
        submitters = _submitters(entries, event.id)
        if submitters == {client}:
            yield Violation("own event broadcast", f"{event.committed_id}", (*entries.events[event.id].proof, call))
        for missed in partitions.between(subscribed, cursor, event.committed_id - 1):
            entry = entries.by_id[missed][0]
            if client not in _submitters(entries, entry.name) and not entries.may_be_erased(entry, call.latest):
                detail = f"{missed} is missing between {cursor} and {event.committed_id}"
                yield Violation("gap in broadcasts", detail, (*entry.proof, call))
        cursor = event.committed_id


def _submitters(entries: Entries, event_id: str) -> set[str]:
    """Return the connections that may have committed an event."""
    entry = entries.events.get(event_id)
    if entry is None:
        return set()
    return {write.client for write in entry.writes if isinstance(write, Submit) and not write.refused}
