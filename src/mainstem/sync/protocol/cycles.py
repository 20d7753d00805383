"""The sync cycle: a client catches up page by page, to an end that is fixed when the cycle begins."""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.log.records import Record
from mainstem.sync.protocol.messages import complete_event


class Cycle(msgspec.Struct, frozen=True, gc=False):
    """A cycle, from the first `sync` to the page without `has_more`. `until` is the same for all its pages."""

    partitions: tuple[str, ...]
    began_since: int
    until: int
    next_since: int
    reported_floors: tuple[tuple[str, int], ...] = ()
    """The floors that earlier pages have reported, so that each is reported once."""
    covered: int = 0
    """The highest committed id of the snapshots, and of the floors without a snapshot, that earlier pages reported."""

    def is_continued_by(self, partitions: tuple[str, ...], since: int) -> bool:
        return partitions == self.partitions and since == self.next_since

    def covers(self, partitions: tuple[str, ...], committed_id: int) -> bool:
        """Return whether an event of these partitions was on one of the pages."""
        return self.began_since < committed_id <= self.until and not set(partitions).isdisjoint(self.partitions)


def clamp_limit(limit: int | None) -> int:
    """Return the limit, moved to the nearest bound if it is out of range (seed 000)."""
    if limit is None:
        return limits.SYNC_PAGE
    return max(limits.SYNC_PAGE_MIN, min(limit, limits.SYNC_PAGE_MAX))


class SyncPage(msgspec.Struct, frozen=True):
    """One page of a cycle, with snapshots in place of pruned history."""

    cycle: Cycle
    records: list[Record]
    next_since: int
    has_more: bool
    snapshots: list[dict[str, Any]]
    truncated: list[str]
    reported_floors: tuple[tuple[str, int], ...]
    covered: int

    def describe(self, subscriptions: list[str]) -> dict[str, Any]:
        """Return the payload of a `sync_response`."""
        body: dict[str, Any] = {
            "partitions": self.cycle.partitions,
            "effective_subscriptions": sorted(subscriptions),
            "events": [
                msgspec.Raw(complete_event(record.data, record.committed_id, record.committed_at_us))
                for record in self.records
            ],
            "next_since_committed_id": self.next_since,
            "sync_to_committed_id": self.cycle.until,
            "has_more": self.has_more,
        }
        if self.snapshots:
            body["snapshots"] = self.snapshots
        if self.truncated:
            body["history_truncated"] = self.truncated
        return body
