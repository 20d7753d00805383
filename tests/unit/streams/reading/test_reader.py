import pytest

from mainstem.errors import StreamNotFound
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.reading.reader import Streams
from mainstem.testing.clock import FakeClock

CREATE = Create("s", "text/plain", lifetime=Lifetime(ttl_s=1))


class OvertakenStore(MemoryStore):
    """Returns a state that was read before the stream has expired, was created again, and was read."""

    streams: Streams
    time: FakeClock

    async def get(self, key):
        found = await super().get(key)
        self.time.advance(2.0)
        created: Created = await self.streams.log.submit(CREATE)
        self.streams.touch("s", created.state)
        return found


async def test_a_reader_of_the_next_incarnation_does_not_keep_an_expired_one_alive():
    store, clock = OvertakenStore(), FakeClock()
    log = CommitLog(store, Live(), clock)
    store.streams, store.time = Streams(log, 1_000), clock
    log.start()
    try:
        created: Created = await log.submit(CREATE)
        assert (await store.streams.find("s")).read_seq == 1
        with pytest.raises(StreamNotFound):
            await store.streams.find("s", created.state.topic)
    finally:
        await log.stop()
