"""The pruner: erases events that are at or below the floors of all their partitions, in small transactions.

An event's entry in the deduplication index stays, so a late retry still receives its original commit.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.log.commands import Key, State
from mainstem.log.commit import CommitLog
from mainstem.log.records import CommittedId, Kind, Record
from mainstem.sync.commands import NoteErased, NotePruned, prunable
from mainstem.sync.protocol.messages import stored_partitions
from mainstem.sync.states import PARTITIONS, PartitionState, partition_key

logger = logging.getLogger(__name__)


class Pruner:
    """Prunes each partition whose floor has risen since it was last pruned."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._wanted = asyncio.Event()
        self._wanted.set()  # a crash may have interrupted the last round
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.log.store.shared:
            self.log.observers.append(self._observe)
        self._task = asyncio.create_task(self._run(), name="mainstem-pruner")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.log.store.shared:
            self.log.observers.remove(self._observe)

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        """Wake up when any node has raised a floor: only the leader prunes."""
        if any(record.kind is Kind.PRUNE for record in records):
            self.wake()

    def wake(self) -> None:
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not self.log.store.is_leader:  # the leader prunes, but this node may become the leader
                await self._retry_later()
                continue
            try:
                await self.round()
            except MainstemError as error:
                logger.warning("pruning failed and will be retried: %s", error.detail)
                await self._retry_later()
            except Exception:
                logger.exception("pruning failed and will be retried")
                await self._retry_later()

    async def _retry_later(self) -> None:
        await asyncio.sleep(limits.REAP_EVERY_S)
        self._wanted.set()

    async def round(self) -> int:
        """Prune all partitions once and return the number of erased events."""
        erased = 0
        after = ""
        while page := await self.log.store.scan(PARTITIONS, "", after, limits.SCAN_PAGE):
            for name, state in page:
                if state.floor > state.pruned:
                    erased += await self._prune(name, state)
            after = page[-1][0]
        return erased

    async def _prune(self, name: str, state: PartitionState) -> int:
        """Erase the events of this partition that are prunable, and return their number.

        An event that stays, because the floor of another of its partitions is lower, is examined again when that floor
        rises.
        """
        erased, at = 0, 0
        while True:
            records = await self.log.store.read_tagged(
                [name],
                CommittedId(at),
                CommittedId(state.floor),
                limits.PRUNE_EVENTS_MAX,
                limits.SYNC_PAGE_BYTES_MAX,
            )
            if not records:
                break
            at = records[-1].committed_id
            tags = {record.committed_id: stored_partitions(record.data) for record in records}
            floors = await self._floors({name for names in tags.values() for name in names})
            ids = [number for number, names in tags.items() if prunable(number, [floors[name] for name in names])]
            if ids:
                newest = {name: number for number in ids for name in tags[number]}  # ids ascend
                await self.log.submit(NoteErased(ids[-1], tuple(newest.items())))
            await self.log.store.erase_tagged(ids, [(name, number) for number in ids for name in tags[number]])
            erased += len(ids)
        await self.log.submit(NotePruned(name, state.floor))
        return erased

    async def _floors(self, names: set[str]) -> dict[str, int]:
        states = await self.log.store.get_many([partition_key(name) for name in names])
        found = {name: states[partition_key(name)] for name in names}
        return {name: 0 if state is None else state.floor for name, state in found.items()}
