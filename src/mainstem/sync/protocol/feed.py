"""The feed: the committed events that a connection has yet to receive."""

from collections.abc import Sequence

import msgspec

from mainstem.log.records import CommittedId, Record
from mainstem.sync.protocol.cycles import Cycle, SyncPage
from mainstem.sync.protocol.effects import Send
from mainstem.sync.protocol.messages import encode_broadcast, stored_partitions


def broadcast(record: Record) -> Send:
    return Send(encode_broadcast(record.data, record.committed_id, record.committed_at_us))


class ReadEvents(msgspec.Struct, frozen=True, gc=False):
    """A read of the events of these partitions, after one committed id and up to another."""

    partitions: list[str]
    after: CommittedId
    until: CommittedId


class Feed:
    """Keeps a single cursor instead of a queue, because the log holds the events anyway.

    Every event up to `cursor` has been sent or is not wanted. While `live`, events are sent as they are committed.
    Otherwise they are read from the log after the cursor, once the cycle has ended or the client has caught up.
    """

    def __init__(self, head: int) -> None:
        self.cursor = head
        self.live = True
        self.cycle: Cycle | None = None
        self.subscriptions: dict[str, int] = {}
        """Maps a partition to the committed id after which its events are wanted."""
        self.own_ids: set[int] = set()
        """Committed ids of events that this connection submitted while it was not live."""
        self._covered: list[Cycle] = []

    def replace_subscriptions(self, partitions: Sequence[str], since: int) -> tuple[list[str], list[str]]:
        """Subscribe to exactly these partitions, and return the added and the dropped ones."""
        wanted = set(partitions)
        added = [name for name in partitions if name not in self.subscriptions]
        dropped = [name for name in self.subscriptions if name not in wanted]
        for name in dropped:
            del self.subscriptions[name]
        for name in added:
            self.subscriptions[name] = since
        return added, dropped

    # Cycles

    def begin_or_continue(self, partitions: tuple[str, ...], since: int, head: int) -> Cycle:
        """Return the cycle that a request belongs to. `head` is the newest committed id that was broadcast."""
        cycle = self.cycle
        if cycle is not None and cycle.is_continued_by(partitions, since):
            return cycle
        if cycle is not None:  # replaced by a new cycle: only the pages that were sent count
            self._cover(msgspec.structs.replace(cycle, until=cycle.next_since))
        self.pause(head)
        self.cycle = Cycle(partitions, since, head, since)
        return self.cycle

    def turn_page(self, page: SyncPage) -> None:
        """Record that a page was sent. The last page ends the cycle."""
        cycle = msgspec.structs.replace(
            page.cycle, next_since=page.next_since, reported_floors=page.reported_floors, covered=page.covered
        )
        if page.has_more:
            self.cycle = cycle
        else:
            self._cover(cycle)

    def _cover(self, cycle: Cycle) -> None:
        """End the cycle. If the feed has not reached its end, events that were on its pages are not broadcast again."""
        if self.cursor < cycle.until:
            self._covered.append(cycle)
        self.cycle = None

    # Reading from the log

    def pause(self, at: int) -> None:
        """Stop live delivery: events after this id are read from the log later."""
        if self.live:
            self.live = False
            self.cursor = at

    def next_read(self, head: int) -> ReadEvents | None:
        """Return what to read next. Return None if the feed is live, if it has reached the head and so becomes live, or
        during a cycle, whose end starts the reading again."""
        if self.cycle is not None or self.live:
            return None
        if self.cursor >= head or not self.subscriptions:
            self._resume()
            return None
        return ReadEvents(list(self.subscriptions), CommittedId(self.cursor), CommittedId(head))

    def events_read(self, read: ReadEvents, records: Sequence[Record]) -> list[Send]:
        """Return the messages to send for the events that were read."""
        if self.cycle is not None:
            return []  # a cycle has begun in the meantime
        messages: list[Send] = []
        for record in records:
            if self._wants(stored_partitions(record.data), record.committed_id):
                messages.append(broadcast(record))
            self.own_ids.discard(record.committed_id)
        self.cursor = records[-1].committed_id if records else read.until
        return messages

    def _resume(self) -> None:
        self.live = True
        self.own_ids.clear()
        self._covered.clear()

    def _wants(self, partitions: tuple[str, ...], committed_id: int) -> bool:
        if committed_id in self.own_ids:
            return False
        if not any(committed_id > self.subscriptions.get(name, committed_id) for name in partitions):
            return False
        return not any(cycle.covers(partitions, committed_id) for cycle in self._covered)
