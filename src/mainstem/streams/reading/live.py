"""Live reads of a stream or a partition by long-poll or SSE, fed from the log at the reader's own pace.

A reader holds an offset, never a queue. When it is woken, it reads the data that follows its offset: from the recent
records in memory, where all readers at the same offset share one encoded frame, or from the store if it has fallen
behind.
"""

import asyncio
from collections.abc import Hashable

from mainstem import limits
from mainstem.errors import OffsetGone, StreamGone, StreamNotFound
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.log.commit import CommitLog
from mainstem.log.live import Topic, wait_for_change
from mainstem.streams.jitter import draw_cursor_jitter_s
from mainstem.streams.reading.pump import (
    EVENT_STREAM,
    DisconnectWatcher,
    Progress,
    draw_deadline,
    send_events,
    token_seconds_left,
)
from mainstem.streams.reading.reader import Page
from mainstem.streams.reading.sources import LiveSource, Tail, has_news
from mainstem.streams.reading.waiting import (
    LONG_POLL,
    SSE,
    Detach,
    LiveReader,
    MakeResponse,
    Reply,
    SharedFeed,
    WaitingReaders,
)
from mainstem.streams.rules import content_types, json_mode, sse
from mainstem.streams.rules.cursors import current_interval, is_ahead, next_cursor
from mainstem.streams.rules.offsets import Offset


class LiveReads:
    def __init__(self, log: CommitLog, long_poll_s: float) -> None:
        self.log = log
        self.live = log.live
        self.long_poll_s = long_poll_s
        self._waiting = WaitingReaders(log.live, self._resume)

    async def wait(
        self,
        source: LiveSource,
        start: Offset,
        like: Hashable,
        make_response: MakeResponse,
        scope: Scope,
        receive: Receive,
    ) -> Tail | None:
        """Return the end of a source, which was just refreshed, once it is after `start`, or when the wait times out.

        Return None if the client disconnects, or if the reader waits without a task; then it gets the response of
        `make_response`, which it shares with readers that are equal in `like` and in the policy for their replies.
        """
        if has_news(source.tail, start):
            return source.tail
        reader = LiveReader(self.live, source, scope, LONG_POLL)
        loop = asyncio.get_running_loop()
        reader.deadline = loop.time() + min(self.long_poll_s, token_seconds_left(scope, self.log.clock_us()))
        client: DisconnectWatcher | None = None
        try:
            while True:
                seen = reader.topic.version
                tail = await source.refresh()
                left_s = reader.deadline - loop.time()
                if has_news(tail, start) or left_s <= 0 or self.live.closing:
                    return tail
                if seen == reader.topic.version and (reply := _detach(reader, scope)) is not None:
                    policy: ReplyPolicy | None = scope.get("mainstem.policy")
                    self._waiting.add_poll(reader, start, like, make_response, reply, policy)
                    return None
                client = client or DisconnectWatcher(receive)
                await wait_for_change((reader.topic,), (seen,), left_s, client.end_on_disconnect)
                if client.disconnected:
                    return None
        finally:
            if not reader.waits:
                reader.leave()
            if client is not None:
                client.close()

    async def stream_events(
        self, source: LiveSource, start: Offset, cursor: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        headers = EVENT_STREAM
        if not content_types.is_text(source.content_type):
            headers = [*headers, (b"stream-sse-data-encoding", b"base64")]
        reader = LiveReader(self.live, source, scope, SSE)
        try:
            await source.read(start, 1)  # an invalid offset must give an error response, not an event stream
            reader.deadline = draw_deadline(self.log, scope)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            feed = SourceFeed(self.log, source, reader.topic, start, cursor)
            await self._send_events(reader, feed, scope, receive, send)
        finally:
            if not reader.waits:
                reader.leave()

    async def _send_events(
        self, reader: LiveReader, feed: SharedFeed, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send events until the response ends, or until the reader waits without a task."""

        def wait_elsewhere() -> bool:
            reply = _detach(reader, scope)
            if reply is None:
                return False
            self._waiting.add(reader, feed, reply)
            return True

        await send_events(self.log, (reader.topic,), feed, reader.deadline, receive, send, SSE, wait_elsewhere)

    def _resume(self, reader: LiveReader, feed: SharedFeed) -> None:
        """Continue the response of a reader whose client did not keep up."""

        async def continue_response(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                # This waits until the client has received what it was sent.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                await self._send_events(reader, feed, scope, receive, send)
            finally:
                if not reader.waits:
                    reader.leave()

        reader.reply.resume(continue_response)


class SourceFeed:
    """The events of one source for one reader. Readers at the same offset share the encoded bytes of an event."""

    __slots__ = ("_at", "_cursor", "_log", "_sent", "_topic", "source")

    def __init__(self, log: CommitLog, source: LiveSource, topic: Topic, start: Offset, cursor: str | None) -> None:
        self.source = source
        self._log = log
        self._topic = topic
        self._at = start
        self._cursor = cursor
        """The cursor of the client, while it is ahead."""
        self._sent: Tail | None = None
        """The end up to which everything has been sent."""

    @property
    def position(self) -> tuple[Offset, Tail | None, str | None]:
        return self._at, self._sent, self._cursor

    def copy(self, position: tuple[Offset, Tail | None, str | None]) -> "SourceFeed":
        at, sent, cursor = position
        feed = SourceFeed(self._log, self.source.copy(), self._topic, at, cursor)
        feed._sent = sent
        return feed

    async def next_events(self) -> tuple[bytes, Progress]:
        try:
            tail = await self.source.refresh()
            if tail == self._sent:
                return b"", "caught up"
            now_us = self._log.clock_us()
            if self._cursor is not None and not is_ahead(self._cursor, now_us):
                self._cursor = None
            shared = self._cursor is None
            key = (self._at, tail, current_interval(now_us))
            frames = self._topic.frames
            frame = frames.get(key) if shared else None
            if frame is None:
                frame = await self._encode_next(now_us)
                if shared and frame[2] and len(frames) < limits.TOPIC_FRAMES_MAX:
                    frames[key] = frame
            events, self._at, up_to_date = frame
        except (StreamNotFound, StreamGone):
            return sse.DELETED, "ended"
        except OffsetGone:
            return b"", "ended"  # retention has overtaken this reader; its next request gets the error
        if not up_to_date:
            return events, "behind"
        self._sent = tail
        return events, "ended" if tail[1] else "caught up"

    async def _encode_next(self, now_us: int) -> tuple[bytes, Offset, bool]:
        """Return the next events, the offset after them, and whether that is the end of the source."""
        page = await self.source.read(self._at, limits.SSE_EVENT_BYTES)
        cursor = next_cursor(self._cursor, now_us, draw_cursor_jitter_s(self._log.random))
        if len(page.data) <= limits.ENCODE_INLINE_BYTES_MAX:
            events, end = _encode_page(self.source.content_type, page, cursor)
        else:
            events, end = await asyncio.to_thread(_encode_page, self.source.content_type, page, cursor)
        return events, end, page.up_to_date


def _detach(reader: LiveReader, scope: Scope) -> Reply | None:
    """Make a reader the handler of its request, if the ASGI server supports that, so that it needs no task."""
    detach: Detach | None = (scope.get("extensions") or {}).get("mainstem.detach")
    return None if detach is None else detach(reader)


def _encode_page(content_type: str, page: Page, cursor: str) -> tuple[bytes, Offset]:
    """Return a data event, if there is data, with its control event, and the offset after them."""
    event, end = _encode_data(content_type, page)
    return event + sse.encode_control(end, cursor, page.up_to_date, page.closed), end


def _encode_data(content_type: str, page: Page) -> tuple[bytes, Offset]:
    """Return a data event and the offset after it. An incomplete character at the end is left for the next event."""
    data, end = page.data, page.end
    if content_types.is_json(content_type):
        return (sse.encode_text(json_mode.wrap(data)) if data else b""), end
    if not content_types.is_text(content_type):
        return (sse.encode_binary(data) if data else b""), end
    if not page.closed:
        data = data[: sse.whole_characters(data)]
        end = Offset(page.start.read_seq, page.start.position + len(data))
    return (sse.encode_text(sse.repair(data)) if data else b""), end
