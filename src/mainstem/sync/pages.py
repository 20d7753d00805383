"""Reading the pages of a sync cycle: the events of some partitions after a committed id, with snapshots in place of
pruned history."""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.log.records import CommittedId, Record
from mainstem.sync.protocol.cycles import Cycle, SyncPage
from mainstem.sync.states import PartitionState, Snapshot, partition_key, snapshot_key


class MissingHistory(msgspec.Struct, frozen=True):
    """What a page says about events that are gone, and what the cycle has reported so far."""

    snapshots: list[dict[str, Any]]
    """Snapshots that replace pruned events."""
    truncated: list[str]
    """Partitions without such a snapshot."""
    reported_floors: tuple[tuple[str, int], ...]
    covered: int


class PageReader:
    def __init__(self, log: CommitLog) -> None:
        self.log = log

    async def read(self, cycle: Cycle, since: int, limit: int) -> SyncPage:
        records: list[Record] = []
        if cycle.partitions and since < cycle.until:
            records = await self._read(cycle, since, limit + 1)
        has_more = len(records) > limit
        records = records[:limit]
        next_since = records[-1].committed_id if records else since
        if records and not has_more and next_since < cycle.until:
            # The page may have ended because of its size in bytes, so look for one more event.
            has_more = bool(await self._read(cycle, next_since, 1))
        # Floors rise before events are erased. So the floors of now explain everything that the page is without.
        missing = await self._missing_history(cycle, since)
        if not has_more:
            # The pages hold every event of these partitions up to the end of the cycle, except those that snapshots and
            # floors cover. So the cursor can move past these, and the next cycle does not send them again. It stays
            # within the end: a newer snapshot of one partition says nothing about the events of the others.
            next_since = max(next_since, min(missing.covered, cycle.until))
        return SyncPage(
            cycle,
            records,
            next_since,
            has_more,
            missing.snapshots,
            missing.truncated,
            missing.reported_floors,
            missing.covered,
        )

    async def _read(self, cycle: Cycle, since: int, limit: int) -> list[Record]:
        return await self.log.store.read_tagged(
            cycle.partitions, CommittedId(since), CommittedId(cycle.until), limit, limits.SYNC_PAGE_BYTES_MAX
        )

    async def _missing_history(self, cycle: Cycle, since: int) -> MissingHistory:
        """Return what is gone after the cursor.

        A cycle reports each floor once: on its first page, or on the next page after the floor has risen.
        """
        states = await self.log.store.get_many([partition_key(name) for name in cycle.partitions])
        reported = dict(cycle.reported_floors)
        snapshots: list[dict[str, Any]] = []
        truncated: list[str] = []
        covered = cycle.covered
        for name in cycle.partitions:
            state: PartitionState | None = states[partition_key(name)]
            if state is None or state.floor <= since or reported.get(name) == state.floor:
                continue
            reported[name] = state.floor
            snapshot: Snapshot | None = await self.log.store.get(snapshot_key(name))
            if snapshot is not None and snapshot.committed_id >= state.floor:
                body = msgspec.Raw(snapshot.state)
                snapshots.append({"partition": name, "committed_id": snapshot.committed_id, "state": body})
                covered = max(covered, snapshot.committed_id)
            else:
                truncated.append(name)
                covered = max(covered, state.floor)
        return MissingHistory(snapshots, truncated, tuple(reported.items()), covered)
