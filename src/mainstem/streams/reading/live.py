"""Live reads: long-poll waits and SSE streams, fed from the log at the reader's own pace.

A reader holds an offset, never a queue. When it is woken it takes what lies behind its offset: from the hot tail,
where all readers at the same offset share one encoded frame, or from the store if it has fallen behind.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import RETRY_AFTER, OffsetGone, StreamGone, StreamNotFound, TooManyReaders
from mainstem.http.asgi import Receive, Send
from mainstem.http.responses import CORS_HEADERS
from mainstem.log.live import Live, Topic, wait_for_change, wake_waiter
from mainstem.log.records import TopicId
from mainstem.shares import Share
from mainstem.streams.jitter import draw_cursor_jitter_s, spread
from mainstem.streams.reading import sse
from mainstem.streams.reading.reader import Page
from mainstem.streams.rules import content_types, json_mode
from mainstem.streams.rules.cursors import current_interval, is_ahead, next_cursor
from mainstem.streams.rules.offsets import Offset


class Departure:
    """Notices that the client has left, and ends the wait that it was in."""

    __slots__ = ("_task", "_waiter", "left")

    def __init__(self, receive: Receive) -> None:
        self.left = False
        self._waiter: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left = True
        if self._waiter is not None:
            wake_waiter(self._waiter)

    def hold(self, waiter: "asyncio.Future[None]") -> None:
        self._waiter = waiter
        if self.left:
            wake_waiter(waiter)

    def close(self) -> None:
        self._task.cancel()


@contextmanager
def take_room(live: Live, owner: str, count: int = 1) -> Iterator[None]:
    """Room for a live reader of so many topics, among all readers and within the share of its owner."""
    if live.readers + count > limits.LIVE_READERS_MAX:
        raise TooManyReaders(
            f"{live.readers} readers wait already",
            headers=RETRY_AFTER,
            limit_readers=limits.LIVE_READERS_MAX,
        )
    with live.shares.hold(owner, Share.LIVE_READERS, count):
        yield


def seconds_left(identity: Identity, now_us: int) -> float:
    """How long a live read may go on: it ends with the token that it was asked with."""
    return math.inf if identity.expires_at_s is None else identity.expires_at_s - now_us / 1_000_000


class Source(Protocol):
    """What can be read live: a stream, or a partition."""

    content_type: str

    @property
    def key(self) -> TopicId | str:
        """What the log wakes its readers by."""

    def begin(self) -> None:
        """A live reader comes."""

    def end(self) -> None:
        """A live reader leaves."""

    async def look(self) -> tuple[Offset, bool]:
        """Where it ends now, and whether for good; raises when it is gone."""

    async def read(self, at: Offset, bytes_max: int) -> Page: ...


class LiveReads:
    def __init__(self, live: Live, clock_us: Callable[[], int], long_poll_s: float) -> None:
        self.live = live
        self.clock_us = clock_us
        self.long_poll_s = long_poll_s

    async def wait(
        self, source: Source, start: Offset, receive: Receive, owner: str, seconds_max: float = math.inf
    ) -> tuple[Offset, bool] | None:
        """The end of the source, once it is after `start` or the wait is over; None if the client left.

        `owner` is whose reader this is (`access.name_caller`).
        """
        now = await source.look()
        if _has_news(now, start):
            return now
        with take_room(self.live, owner):
            loop = asyncio.get_running_loop()
            deadline = loop.time() + min(self.long_poll_s, seconds_max)
            client = Departure(receive)
            source.begin()
            try:
                with self.live.watch(source.key) as topic:
                    while True:
                        seen = topic.version
                        now = await source.look()
                        left_s = deadline - loop.time()
                        if _has_news(now, start) or left_s <= 0 or self.live.closing:
                            return now
                        await wait_for_change((topic,), (seen,), left_s, client.hold)
                        if client.left:
                            return None
            finally:
                source.end()
                client.close()

    async def stream_events(
        self,
        source: Source,
        start: Offset,
        cursor: str | None,
        receive: Receive,
        send: Send,
        owner: str,
        seconds_max: float = math.inf,
    ) -> None:
        with take_room(self.live, owner):
            await self._stream_events(source, start, cursor, receive, send, seconds_max)

    async def _stream_events(
        self,
        source: Source,
        start: Offset,
        cursor: str | None,
        receive: Receive,
        send: Send,
        seconds_max: float,
    ) -> None:
        headers = [
            *CORS_HEADERS,
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        if not content_types.is_text(source.content_type):
            headers.append((b"stream-sse-data-encoding", b"base64"))
        await source.read(start, 1)  # an offset that cannot be read is an error, not a stream
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        client = Departure(receive)
        source.begin()
        try:
            with self.live.watch(source.key) as topic:
                await self._send_events(source, start, cursor, topic, client, send, seconds_max)
        finally:
            source.end()
            client.close()
        if not client.left:
            await send({"type": "http.response.body", "body": b""})

    async def _send_events(
        self,
        source: Source,
        at: Offset,
        cursor: str | None,
        topic: Topic,
        client: Departure,
        send: Send,
        seconds_max: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        # A little spread, or all readers of a popular stream would come back in the same second.
        deadline = loop.time() + min(spread(limits.SSE_LIFETIME_S, 0.1), seconds_max)
        told: tuple[Offset, bool] | None = None
        while not client.left:
            seen = topic.version
            try:
                now = await source.look()
                if told != now:
                    frame, at, done = await self._frame(source, now, at, cursor, topic)
                    await _send_body(send, frame)
                    if not done:
                        continue
                    told = now
                    if now[1]:
                        return
            except (StreamNotFound, StreamGone):
                await _send_body(send, sse.DELETED)
                return
            except OffsetGone:
                return  # retention has overtaken this reader; it is told so when it comes back
            left_s = deadline - loop.time()
            if left_s <= 0 or self.live.closing:
                return
            await wait_for_change((topic,), (seen,), min(left_s, limits.SSE_HEARTBEAT_S), client.hold)
            if topic.version == seen and not client.left:
                if left_s <= limits.SSE_HEARTBEAT_S:
                    return  # it was the deadline that was waited for; timers may be a little early
                await _send_body(send, sse.HEARTBEAT)

    async def _frame(
        self, source: Source, now: tuple[Offset, bool], at: Offset, cursor: str | None, topic: Topic
    ) -> tuple[bytes, Offset, bool]:
        """The next events for a reader at `at`, where it is then, and whether it has everything."""
        now_us = self.clock_us()
        shared = not is_ahead(cursor, now_us)
        name = (at, now, current_interval(now_us))
        known: tuple[bytes, Offset, bool] | None = topic.frames.get(name) if shared else None
        if known is not None:
            return known
        page = await source.read(at, limits.SSE_EVENT_BYTES)
        tag = next_cursor(cursor, now_us, draw_cursor_jitter_s())
        if len(page.data) <= limits.ENCODE_INLINE_BYTES_MAX:
            frame, end = _encode_page(source.content_type, page, tag)
        else:
            frame, end = await asyncio.to_thread(_encode_page, source.content_type, page, tag)
        if shared and page.up_to_date and len(topic.frames) < limits.TOPIC_FRAMES_MAX:
            topic.frames[name] = frame, end, page.up_to_date
        return frame, end, page.up_to_date


def _has_news(now: tuple[Offset, bool], start: Offset) -> bool:
    end, closed = now
    return end > start or closed


def _encode_page(content_type: str, page: Page, cursor: str) -> tuple[bytes, Offset]:
    """A data event, if there is data, with its control event, and up to where it goes."""
    event, end = _encode_data(content_type, page)
    return event + sse.encode_control(end, cursor, page.up_to_date, page.closed), end


def _encode_data(content_type: str, page: Page) -> tuple[bytes, Offset]:
    """A data event, and up to where it goes: a character that is cut off waits for its rest."""
    data, end = page.data, page.end
    if content_types.is_json(content_type):
        return (sse.encode_text(json_mode.wrap(data)) if data else b""), end
    if not content_types.is_text(content_type):
        return (sse.encode_binary(data) if data else b""), end
    if not page.closed:
        data = data[: sse.whole_characters(data)]
        end = Offset(page.start.read_seq, page.start.position + len(data))
    return (sse.encode_text(sse.repair(data)) if data else b""), end


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
