"""Reading the pages of a sync cycle: the events of some partitions after a committed id, with snapshots in place of
pruned history."""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.log.records import CommittedId, Record
from mainstem.sync.protocol.cycles import Cycle, SyncPage
from mainstem.sync.states import PartitionState, Snapshot, partition_key, snapshot_key


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
        snapshots, truncated, floors = await self._missing_history(cycle, since)
        return SyncPage(cycle, records, next_since, has_more, snapshots, truncated, floors)

    async def _read(self, cycle: Cycle, since: int, limit: int) -> list[Record]:
        return await self.log.store.read_tagged(
            cycle.partitions, CommittedId(since), CommittedId(cycle.until), limit, limits.SYNC_PAGE_BYTES_MAX
        )

    async def _missing_history(
        self, cycle: Cycle, since: int
    ) -> tuple[list[dict[str, Any]], list[str], tuple[tuple[str, int], ...]]:
        """Return the snapshots that replace pruned events, the partitions without one, and the floors reported so far.

        A cycle reports each floor once: on its first page, or on the next page after the floor has risen.
        """
        states = await self.log.store.get_many([partition_key(name) for name in cycle.partitions])
        reported = dict(cycle.reported_floors)
        snapshots: list[dict[str, Any]] = []
        truncated: list[str] = []
        for name in cycle.partitions:
            state: PartitionState | None = states[partition_key(name)]
            if state is None or state.floor <= since or reported.get(name) == state.floor:
                continue
            reported[name] = state.floor
            snapshot: Snapshot | None = await self.log.store.get(snapshot_key(name))
            if snapshot is not None and snapshot.committed_id >= state.floor:
                body = msgspec.Raw(snapshot.state)
                snapshots.append({"partition": name, "committed_id": snapshot.committed_id, "state": body})
            else:
                truncated.append(name)
        return snapshots, truncated, tuple(reported.items())
