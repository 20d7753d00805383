"""Live readers that wait at the end of a source, without a task each.

Readers at the same offset form a group. The group has one feed: when the source grows, the next events are read,
encoded and framed once, and the same bytes are written to the connection of every reader. A reader whose client does
not keep up leaves the group, with its offset, and continues in a task until it has caught up.

Only `mainstem serve` supports this. Under another ASGI server, every reader has a task.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol

from mainstem import limits
from mainstem.eager import run_eagerly
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.log.live import Live, Topic
from mainstem.shares import Share
from mainstem.streams.reading.pump import Progress, count_readers
from mainstem.streams.reading.sources import LiveSource
from mainstem.streams.rules import sse

logger = logging.getLogger(__name__)
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class ReplyConnection(Protocol):
    write_paused: bool
    """Whether the client does not read what it was sent."""

    def send(self, data: bytes, /) -> None: ...


class Reply(Protocol):
    """A reply whose head has been sent, in chunked encoding."""

    connection: Any
    """A ReplyConnection."""

    def end(self) -> None: ...
    def abort(self) -> None: ...

    def resume(self, app: App, /) -> None:
        """Continue the reply in a task, as an ASGI app that has received its request and sent the head."""


Detach = Callable[["LiveReader"], Reply | None]
"""The extension `mainstem.detach` of the scope: makes a reader the handler of the request, so that the app can return
before its reply is complete. Returns None if the reply cannot be detached."""


class LiveReader:
    """A live reader, counted in total, for its caller and for its source until it leaves.

    While it waits, it is the handler of its request.
    """

    __slots__ = ("_live", "_owner", "deadline", "group", "reply", "source", "topic")

    backlog = 0  # the request is complete

    def __init__(self, live: Live, source: LiveSource, scope: Scope) -> None:
        self._owner = count_readers(live, scope)
        self._live = live
        self.source = source
        self.topic = live.add_reader(source.key)
        source.add_reader()
        self.deadline = 0.0
        """When the response ends, on the clock of the event loop."""
        self.group: EventGroup | None = None
        self.reply: Reply

    @property
    def waits(self) -> bool:
        return self.group is not None

    def leave(self) -> None:
        """Stop counting this reader."""
        self.source.remove_reader()
        self._live.remove_reader(self.source.key)
        self._live.shares.release(self._owner, Share.LIVE_READERS)

    def expire(self) -> None:
        """End the response, if this reader still waits at its deadline."""
        if self.group is not None:
            self.end()

    def end(self) -> None:
        assert self.group is not None
        self.group.remove(self)
        self.leave()
        self.reply.end()

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        pass

    def receive_end(self) -> None:
        pass

    def client_disconnected(self) -> None:
        if self.group is not None:
            self.group.remove(self)
            self.leave()
            self.reply.abort()


class SharedFeed(Protocol):
    """A feed whose events are the same for all readers at its position."""

    @property
    def position(self) -> Hashable:
        """What a reader has received."""

    @property
    def source(self) -> LiveSource: ...

    def copy(self, position: Any) -> "SharedFeed":
        """Return a feed that continues at an earlier position."""

    async def next_events(self) -> tuple[bytes, Progress]: ...


class EventGroup:
    """Readers that have received the same events of a source, and wait for the next."""

    __slots__ = (
        "_busy",
        "_feed",
        "_heartbeat",
        "_key",
        "_quiet_since",
        "_task",
        "_waiting",
        "_woken",
        "readers",
        "topic",
    )

    def __init__(self, waiting: "WaitingReaders", feed: SharedFeed, topic: Topic) -> None:
        self.readers: set[LiveReader] = set()
        self.topic = topic
        self._waiting = waiting
        self._feed = feed
        self._busy = False
        """Whether the readers are being sent something, or will be soon."""
        self._woken = False
        self._key: Hashable = self
        self._task: asyncio.Task[None] | None = None
        self._quiet_since = waiting.loop.time()
        self._heartbeat = waiting.loop.call_later(limits.SSE_HEARTBEAT_S, self._beat)
        topic.groups[self] = self

    def add(self, reader: LiveReader) -> None:
        reader.group = self
        self.readers.add(reader)

    def remove(self, reader: LiveReader) -> None:
        reader.group = None
        self.readers.discard(reader)
        if not self.readers and not self._busy:
            self._dissolve()

    def _dissolve(self) -> None:
        self._heartbeat.cancel()
        del self.topic.groups[self._key]
        self._waiting.groups.discard(self)

    def settle(self) -> None:
        """Let other readers with the same position join; join those that wait already."""
        if not self.readers:
            self._dissolve()
            return
        del self.topic.groups[self._key]
        self._key = self._feed.position
        other = self.topic.groups.get(self._key)
        if other is None:
            self.topic.groups[self._key] = self
            return
        self._key = self
        self.topic.groups[self] = self
        if isinstance(other, EventGroup) and not other._busy:
            for reader in self.readers:
                other.add(reader)
            self.readers.clear()
            self._dissolve()

    # Sending

    def wake(self) -> None:
        self._woken = True
        if not self._busy:
            self._busy = True
            self._waiting.loop.call_soon(self._start)

    def _beat(self) -> None:
        """Send a comment to all readers if they were sent nothing for a while."""
        now = self._waiting.loop.time()
        left_s = self._quiet_since + limits.SSE_HEARTBEAT_S - now
        if left_s <= 0.001 and not self._busy:  # timers may fire a little early
            left_s = limits.SSE_HEARTBEAT_S
            self._busy = True
            self._start(sse.HEARTBEAT)
        self._heartbeat = self._waiting.loop.call_later(max(left_s, 0.001), self._beat)

    def _start(self, comment: bytes = b"") -> None:
        work = self._advance(comment)
        if self._feed.source.in_memory:
            self._task = run_eagerly(work)
        else:
            self._task = self._waiting.loop.create_task(work)

    async def _advance(self, comment: bytes) -> None:
        """Send everything that is new."""
        try:
            if comment:
                await self._write(comment, None)
            progress: Progress = "behind"
            while self.readers and (progress == "behind" or self._woken):
                self._woken = False
                before = self._feed.position
                events, progress = await self._feed.next_events()
                if events:
                    await self._write(events, before)
                if progress == "ended" or self._waiting.live.closing:
                    self._end()
                    break
        except Exception:
            logger.exception("an unexpected error occurred while serving live readers")
            for reader in list(self.readers):
                reader.client_disconnected()
        self._busy = False
        self._task = None
        self.settle()

    async def _write(self, events: bytes, before: Hashable) -> None:
        """Write events to all readers, a part of them at a time. Those whose clients do not keep up leave the group."""
        chunk = b"%x\r\n%b\r\n" % (len(events), events)
        readers = list(self.readers)
        at_once = limits.FAN_OUT_AT_ONCE
        for start in range(0, len(readers), at_once):
            if start:
                await asyncio.sleep(0)
            for reader in readers[start : start + at_once]:
                if reader.group is not self:
                    continue  # it has left meanwhile
                connection = reader.reply.connection
                if not connection.write_paused:
                    connection.send(chunk)
                elif before is not None:
                    self.readers.discard(reader)
                    reader.group = None
                    self._waiting.resume(reader, self._feed.copy(before))
        self._quiet_since = self._waiting.loop.time()

    def _end(self) -> None:
        for reader in list(self.readers):
            reader.end()


class WaitingReaders:
    """All waiting readers of one kind of source."""

    def __init__(self, live: Live, resume: Callable[[LiveReader, SharedFeed], None]) -> None:
        self.live = live
        self.resume = resume
        """Continues a reader in a task, until it has caught up."""
        self.groups: set[EventGroup] = set()
        self.loop: asyncio.AbstractEventLoop
        self._sweeps = False

    def add(self, reader: LiveReader, feed: SharedFeed, reply: Reply) -> None:
        """Let a reader wait that has received everything."""
        self.loop = asyncio.get_running_loop()
        reader.reply = reply
        group = reader.topic.groups.get(feed.position)
        if not isinstance(group, EventGroup) or group._busy:
            group = EventGroup(self, feed, reader.topic)
            self.groups.add(group)
            group.add(reader)
            group.settle()
        else:
            group.add(reader)
            reader.source = group._feed.source
        if not self._sweeps:
            self._sweeps = True
            self.loop.call_later(limits.DEADLINE_CHECK_S, self._sweep)
        self._expire_soon(reader, self.loop.time())

    def _sweep(self) -> None:
        """Look for readers whose deadline is near: a timer for each of them from the beginning would cost more."""
        self._sweeps = bool(self.groups)
        if self._sweeps:
            now = self.loop.time()
            for group in self.groups:
                for reader in group.readers:
                    self._expire_soon(reader, now)
            self.loop.call_later(limits.DEADLINE_CHECK_S, self._sweep)

    def _expire_soon(self, reader: LiveReader, now: float) -> None:
        if reader.deadline - now <= limits.DEADLINE_CHECK_S:
            self.loop.call_at(reader.deadline, reader.expire)
