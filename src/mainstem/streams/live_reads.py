"""Live reads: long-poll waits and SSE streams, fed from the log at the reader's own pace.

A reader holds an offset, never a queue. When it is woken it takes what lies behind its offset: from the hot tail,
where all readers at the same offset share one encoded frame, or from the store if it has fallen behind.
"""

import asyncio
import random

from mainstem import limits
from mainstem.errors import OffsetGone, StreamGone, StreamNotFound, TooManyReaders
from mainstem.log.live import Live, Topic, changed, end_wait
from mainstem.streams import content_types, json_mode, sse
from mainstem.streams.cursors import JITTER_S_MAX, current_interval, is_ahead, next_cursor
from mainstem.streams.offsets import Offset
from mainstem.streams.requests import Receive, Send
from mainstem.streams.responses import OPEN
from mainstem.streams.service import Streams
from mainstem.streams.states import StreamState


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
            end_wait(self._waiter)

    def hold(self, waiter: "asyncio.Future[None]") -> None:
        self._waiter = waiter
        if self.left:
            end_wait(waiter)

    def close(self) -> None:
        self._task.cancel()


def check_room(live: Live) -> None:
    if live.readers >= limits.LIVE_READERS_MAX:
        raise TooManyReaders(
            f"{live.readers} readers wait already",
            headers={"Retry-After": str(limits.RETRY_AFTER_S)},
            limit_readers=limits.LIVE_READERS_MAX,
        )


class LiveReads:
    def __init__(self, streams: Streams, long_poll_s: float) -> None:
        self.streams = streams
        self.live = streams.log.live
        self.long_poll_s = long_poll_s

    async def wait(self, path: str, state: StreamState, start: Offset, receive: Receive) -> StreamState | None:
        """The stream once it has something behind `start`, or at the end of the wait; None if the client left."""
        if start != state.next_offset or state.closed:
            return state
        check_room(self.live)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.long_poll_s
        client = Departure(receive)
        self.streams.begin_watch(path)
        try:
            with self.live.watch(state.topic) as topic:
                while True:
                    seen = topic.version
                    state = await self.streams.find(path, state.topic)
                    left_s = deadline - loop.time()
                    if start != state.next_offset or state.closed or left_s <= 0 or self.live.closing:
                        return state
                    await changed((topic,), (seen,), left_s, client.hold)
                    if client.left:
                        return None
        finally:
            self.streams.end_watch(path, state)
            client.close()

    async def stream_events(
        self, path: str, state: StreamState, start: Offset, cursor: str | None, receive: Receive, send: Send
    ) -> None:
        check_room(self.live)
        headers = [
            *OPEN,
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        if not content_types.is_text(state.content_type):
            headers.append((b"stream-sse-data-encoding", b"base64"))
        if start != state.next_offset:
            await self.streams.read(state, start, 1)  # an offset that cannot be read is an error, not a stream
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        client = Departure(receive)
        self.streams.begin_watch(path)
        try:
            with self.live.watch(state.topic) as topic:
                await self._send_events(path, state, start, cursor, topic, client, send)
        finally:
            self.streams.end_watch(path, state)
            client.close()
        if not client.left:
            await send({"type": "http.response.body", "body": b""})

    async def _send_events(
        self,
        path: str,
        state: StreamState,
        at: Offset,
        cursor: str | None,
        topic: Topic,
        client: Departure,
        send: Send,
    ) -> None:
        loop = asyncio.get_running_loop()
        # A little spread, or all readers of a popular stream would come back in the same second.
        deadline = loop.time() + limits.SSE_LIFETIME_S * random.uniform(0.9, 1.1)
        told: tuple[Offset, bool] | None = None
        while not client.left:
            seen = topic.version
            try:
                state = await self.streams.find(path, state.topic)
                if told != (state.next_offset, state.closed):
                    frame, at, done = await self._frame(state, at, cursor, topic)
                    await _send_body(send, frame)
                    if not done:
                        continue
                    told = (state.next_offset, state.closed)
                    if state.closed:
                        return
            except (StreamNotFound, StreamGone):
                await _send_body(send, sse.DELETED)
                return
            except OffsetGone:
                return  # retention has overtaken this reader; it is told so when it comes back
            left_s = deadline - loop.time()
            if left_s <= 0 or self.live.closing:
                return
            await changed((topic,), (seen,), min(left_s, limits.SSE_HEARTBEAT_S), client.hold)
            if topic.version == seen and not client.left:
                if left_s <= limits.SSE_HEARTBEAT_S:
                    return  # it was the deadline that was waited for; timers may be a little early
                await _send_body(send, sse.HEARTBEAT)

    async def _frame(
        self, state: StreamState, at: Offset, cursor: str | None, topic: Topic
    ) -> tuple[bytes, Offset, bool]:
        """The next events for a reader at `at`, where it is then, and whether it has everything."""
        now_us = self.streams.log.clock_us()
        shared = not is_ahead(cursor, now_us)
        name = (at.position, state.tail, state.closed, current_interval(now_us))
        known: tuple[bytes, Offset, bool] | None = topic.frames.get(name) if shared else None
        if known is not None:
            return known
        page = await self.streams.read(state, at, limits.SSE_EVENT_BYTES)
        data, end, done = page.data, page.end, page.up_to_date
        if content_types.is_json(state.content_type):
            event = sse.encode_text(json_mode.wrap(data)) if data else b""
        elif content_types.is_text(state.content_type):
            if not page.closed:
                data = data[: sse.whole_characters(data)]
                end = Offset(at.read_seq, at.position + len(data))
            event = sse.encode_text(sse.repair(data)) if data else b""
        else:
            event = sse.encode_binary(data) if data else b""
        tag = next_cursor(cursor, now_us, random.randint(1, JITTER_S_MAX))
        frame = event + sse.encode_control(end, tag, done, page.closed)
        if shared and done and len(topic.frames) < limits.TOPIC_FRAMES_MAX:
            topic.frames[name] = frame, end, done
        return frame, end, done


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
