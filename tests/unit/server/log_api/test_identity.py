"""A log has an identity before it is served."""

import logging
from random import Random

from mainstem.errors import StoreFailed
from mainstem.log.commit import CommitLog
from mainstem.log.identity import IDENTITY_KEY
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.server.log_api.identity import settle_identity
from mainstem.testing.clock import FakeClock


async def test_a_store_that_refuses_writes_is_served_without_an_identity(caplog):
    class Broken(MemoryStore):
        async def save(self, changes, records, head):
            raise StoreFailed("the disk failed")

    async def settle(store):
        log = CommitLog(store, Live(), FakeClock(), Random(7))
        log.start()
        try:
            await settle_identity(log)
            return await store.get(IDENTITY_KEY)
        finally:
            await log.stop()

    with caplog.at_level(logging.WARNING):
        assert await settle(Broken()) is None
    assert "gets its identity at the next start" in caplog.text
    store = MemoryStore()
    known = await settle(store)
    assert len(known.id) == 32
    assert await settle(store) == known
