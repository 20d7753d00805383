"""A store whose events are pruned while they are read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.sync.commands import Item, RaiseFloors, Submit
from mainstem.sync.pruner import Pruner


class PrunedStore(MemoryStore):
    log: CommitLog
    pruned = False
    """Set it to True to prune the partition `p` right before its events are read the next time."""

    async def read_tagged(self, tags, after, until, limit, bytes_max):
        if self.pruned:
            self.pruned = False
            await self.log.submit(RaiseFloors((("p", self.head),)))
            await Pruner(self.log).round()
        return await super().read_tagged(tags, after, until, limit, bytes_max)


@asynccontextmanager
async def pruned_store() -> AsyncIterator[PrunedStore]:
    """A store with one event in `p`, which has the committed id 1."""
    store = PrunedStore()
    store.log = CommitLog(store, Live(), lambda: 0)
    store.log.start()
    try:
        await store.log.submit(Submit((Item("e", ("p",), b"{}", b"digest"),), "c"))
        yield store
    finally:
        await store.log.stop()
