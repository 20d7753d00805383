import asyncio

import msgspec

from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.create import Create, Created
from mainstem.streams.http.reads import ReadRequest, Reads
from mainstem.streams.reading.reader import Streams, StreamSource
from mainstem.streams.rules.json_mode import Messages
from mainstem.testing.clock import FakeClock


class SlowSource(StreamSource):
    """Reads like a disk: others get their turn meanwhile."""

    async def read(self, at, bytes_max):
        page = await super().read(at, bytes_max)
        await asyncio.sleep(0)
        return msgspec.structs.replace(page, data=bytes(bytearray(page.data)))


async def test_readers_of_a_page_at_the_same_time_share_one_body():
    log = CommitLog(MemoryStore(), Live(), FakeClock())
    streams = Streams(log, 1_000)
    reads = Reads(log, long_poll_ms=1, page_bytes=1_000, page_headers=[], cache_control=b"", compresses=False)
    bodies = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        if "body" in message:
            bodies.append(message["body"])

    log.start()
    try:
        created: Created = await log.submit(Create("s", "text/plain", messages=Messages(b"x" * 500, 1)))
        request = ReadRequest(None, created.state.earliest_offset, None, {}, [])
        await asyncio.gather(
            *(reads.respond(SlowSource(streams, "s", created.state), request, [], {}, receive, send) for _ in range(3))
        )
    finally:
        await log.stop()
    assert bodies == [b"x" * 500] * 3
    assert bodies[0] is bodies[1] is bodies[2]
