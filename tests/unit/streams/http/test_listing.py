import json

from mainstem.access import EVERYBODY
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.http.listing import StreamsListing
from mainstem.streams.reading.reader import Streams
from mainstem.streams.reaper import Reaper
from mainstem.testing.clock import FakeClock


class SlowStore(MemoryStore):
    """Returns a scan that is older than the last read of a stream, which became durable meanwhile."""

    streams: Streams

    async def scan(self, space, prefix, after, limit):
        found = await super().scan(space, prefix, after, limit)
        await Reaper(self.streams).stop()  # makes the reads durable, and forgets them
        return found


async def list_paths(streams: Streams) -> list[str]:
    body = b""

    async def receive():
        raise AssertionError("a listing has no body")

    async def send(message):
        nonlocal body
        body += message.get("body", b"")

    await StreamsListing(streams)({"query_string": b"", "mainstem.identity": EVERYBODY}, receive, send)
    return [stream["path"] for stream in json.loads(body)["streams"]]


async def test_a_stream_whose_last_read_becomes_durable_meanwhile_is_listed():
    store, clock = SlowStore(), FakeClock()
    log = CommitLog(store, Live(), clock)
    store.streams = Streams(log, 1_000)
    log.start()
    try:
        created: Created = await log.submit(Create("s", "text/plain", lifetime=Lifetime(ttl_s=1)))
        await log.submit(Create("unread", "text/plain", lifetime=Lifetime(ttl_s=1)))
        clock.advance(0.8)
        store.streams.touch("s", created.state)
        clock.advance(0.8)  # both would have expired without that read
        assert await list_paths(store.streams) == ["s"]
        clock.advance(0.3)
        assert await list_paths(store.streams) == []
    finally:
        await log.stop()
