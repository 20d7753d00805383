"""Live readers that wait at the end of a source, without a task each.

Readers at the same offset form a group. For SSE, the group has one feed: when the source grows, the next events are
read, encoded and framed once, and the same bytes are written to the connection of every reader. A reader whose client
does not keep up leaves the group, with its offset, and continues in a task until it has caught up. For long-polls, the
response is made once for the whole group, which ends with it.

Only `mainstem serve` supports this. Under another ASGI server, every reader has a task.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Protocol

from mainstem import limits
from mainstem.eager import run_eagerly
from mainstem.errors import MainstemError
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.responses import Response, encode_headers, problem_response
from mainstem.log.live import Live, Topic
from mainstem.streams.reading.pump import Progress, count_readers, release_readers
from mainstem.streams.reading.sources import LiveSource, Tail, has_news
from mainstem.streams.rules import sse
from mainstem.streams.rules.offsets import Offset

logger = logging.getLogger(__name__)
TIMER_EARLY_S: Final = 0.001
"""How much too early a timer may fire."""
LONG_POLL: Final = "long-poll"
SSE: Final = "sse"
"""The kinds of live readers of streams and partitions, in metrics."""
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class ReplyConnection(Protocol):
    write_paused: bool
    """Whether the client does not read what it was sent."""

    def send(self, data: bytes, /) -> None: ...


class Reply(Protocol):
    """The reply to a request: either none has begun, or the head has been sent and the body is sent in chunks."""

    code: str
    """The code of the error, if the reply is a problem document."""
    sent: int
    """How many bytes were sent."""

    @property
    def connection(self) -> ReplyConnection: ...

    @property
    def request_id(self) -> str: ...

    def respond(self, status: int, headers: HeaderList, body: bytes, lines: bytes, /) -> None:
        """Send a whole reply. `lines` are further headers, already encoded."""

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

    __slots__ = ("_live", "_owner", "deadline", "group", "kind", "reply", "source", "topic")

    backlog = 0  # the request is complete

    def __init__(self, live: Live, source: LiveSource, scope: Scope, kind: str) -> None:
        self._owner = count_readers(live, scope, kind)
        self.kind = kind
        self._live = live
        self.source = source
        self.topic = live.add_reader(source.key)
        source.add_reader()
        self.deadline = 0.0
        """When the response ends, on the clock of the event loop."""
        self.group: ReaderGroup | None = None
        self.reply: Reply

    @property
    def waits(self) -> bool:
        return self.group is not None

    def leave(self) -> None:
        """Stop counting this reader."""
        self.source.remove_reader()
        self._live.remove_reader(self.source.key)
        release_readers(self._live, self._owner, self.kind)

    def expire(self) -> None:
        """Called at the deadline."""
        if self.group is not None:
            self.group.expire(self)

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        pass

    def receive_end(self) -> None:
        pass

    def client_disconnected(self) -> None:
        if self.group is not None:
            self.group.release(self)
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


class ReaderGroup:
    """Readers of a source that wait for the same data."""

    __slots__ = ("_busy", "_key", "_task", "_waiting", "_woken", "readers", "source", "topic")

    def __init__(self, waiting: "WaitingReaders", source: LiveSource, topic: Topic) -> None:
        self.source = source
        self.topic = topic
        self.readers: dict[LiveReader, None] = {}
        """In the order in which they came."""
        self._waiting = waiting
        self._busy = False
        """Whether the readers are being sent something, or will be soon."""
        self._woken = False
        self._key: Hashable = self
        self._task: asyncio.Task[None] | None = None
        topic.groups[self] = self
        waiting.groups[self] = None

    @property
    def key(self) -> Hashable:
        """What all readers of the group have in common."""
        raise NotImplementedError

    @property
    def joinable(self) -> bool:
        return not self._busy

    def add(self, reader: LiveReader) -> None:
        reader.group = self
        reader.source = self.source
        self.readers[reader] = None

    def remove(self, reader: LiveReader) -> None:
        """Remove a reader, which is still counted."""
        reader.group = None
        self.readers.pop(reader, None)
        if not self.readers and not self._busy:
            self._dissolve()

    def release(self, reader: LiveReader) -> None:
        """Remove a reader, and stop counting it."""
        self.remove(reader)
        reader.leave()

    def expire(self, reader: LiveReader) -> None:
        """End the response to a reader, because its time is over."""
        raise NotImplementedError

    def settle(self) -> None:
        """Let other readers with the same key join; join those that wait already."""
        if not self.readers:
            self._dissolve()
            return
        del self.topic.groups[self._key]
        self._key = self.key
        other = self.topic.groups.get(self._key)
        if other is None:
            self.topic.groups[self._key] = self
            return
        self._key = self
        self.topic.groups[self] = self
        if isinstance(other, ReaderGroup) and other.joinable:
            for reader in self.readers:
                other.add(reader)
            self.readers.clear()
            self._dissolve()

    def _dissolve(self) -> None:
        del self.topic.groups[self._key]
        self._waiting.groups.pop(self, None)

    def wake(self) -> None:
        self._woken = True
        if not self._busy:
            self._busy = True
            self._waiting.loop.call_soon(self._start)

    def _start(self) -> None:
        """Send what is new, in a task only if that has to wait."""
        work = self._run()
        if self.source.in_memory:
            self._task = run_eagerly(work)
        else:
            self._task = self._waiting.loop.create_task(work)

    async def _run(self) -> None:
        try:
            await self._advance()
        except Exception:
            logger.exception("an unexpected error occurred while serving live readers")
            for reader in list(self.readers):
                reader.client_disconnected()
        self._busy = False
        self._task = None
        self.settle()

    async def _advance(self) -> None:
        """Send everything that is new."""
        raise NotImplementedError


class EventGroup(ReaderGroup):
    """Readers that have received the same events, and wait for the next."""

    __slots__ = ("_feed", "_heartbeat", "_quiet_since")

    def __init__(self, waiting: "WaitingReaders", feed: SharedFeed, topic: Topic) -> None:
        super().__init__(waiting, feed.source, topic)
        self._feed = feed
        self._quiet_since = waiting.loop.time()
        self._heartbeat = waiting.loop.call_later(limits.SSE_HEARTBEAT_S, self._beat)

    @property
    def key(self) -> Hashable:
        return self._feed.position

    def expire(self, reader: LiveReader) -> None:
        self.release(reader)
        reader.reply.end()

    def _dissolve(self) -> None:
        super()._dissolve()
        self._heartbeat.cancel()

    def _beat(self) -> None:
        """Send a comment to all readers if they were sent nothing for a while."""
        left_s = self._quiet_since + limits.SSE_HEARTBEAT_S - self._waiting.loop.time()
        if left_s <= TIMER_EARLY_S:
            left_s = limits.SSE_HEARTBEAT_S
            self.wake()
        self._heartbeat = self._waiting.loop.call_later(left_s, self._beat)

    async def _advance(self) -> None:
        if self._quiet_since + limits.SSE_HEARTBEAT_S - self._waiting.loop.time() <= TIMER_EARLY_S:
            await self._write(sse.HEARTBEAT, None)
        progress: Progress = "behind"
        while self.readers and (progress == "behind" or self._woken):
            self._woken = False
            before = self._feed.position
            events, progress = await self._feed.next_events()
            if events:
                await self._write(events, before)
            if progress == "ended" or self._waiting.live.closing:
                for reader in list(self.readers):
                    self.expire(reader)
            elif progress == "behind":
                await asyncio.sleep(0)  # a large append takes many events; other work gets its turn

    async def _write(self, events: bytes, before: Hashable) -> None:
        """Write events to all readers, a part of them at a time.

        Readers whose clients do not keep up leave the group, and continue at the position `before`. Without one, as
        for a comment, they are skipped.
        """
        chunk = b"%x\r\n%b\r\n" % (len(events), events)
        readers = list(self.readers)
        metrics = self._waiting.live.metrics
        metrics.live_frames.of(SSE).value += len(readers)
        metrics.live_bytes.of(SSE).value += len(readers) * len(chunk)
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
                    reader.reply.sent += len(chunk)
                elif before is not None:
                    metrics.slow_readers.of().value += 1
                    self.remove(reader)
                    self._waiting.resume(reader, self._feed.copy(before))
        self._quiet_since = self._waiting.loop.time()


MakeResponse = Callable[[LiveSource, Tail], Awaitable[Response]]
"""Returns the response to a long-poll, for the end that the source has now."""


class PollGroup(ReaderGroup):
    """Long-polls from the same offset that get the same response."""

    __slots__ = ("_ends", "_like", "_make_response", "_policy", "_start_offset")

    def __init__(
        self,
        waiting: "WaitingReaders",
        source: LiveSource,
        topic: Topic,
        start: Offset,
        like: Hashable,
        make_response: MakeResponse,
        policy: ReplyPolicy | None,
    ) -> None:
        super().__init__(waiting, source, topic)
        self._start_offset = start
        self._like = like
        self._make_response = make_response
        self._policy = policy
        self._ends = False

    @property
    def key(self) -> Hashable:
        return "long-poll", self._start_offset, self._like, self._policy

    def expire(self, reader: LiveReader) -> None:
        self.remove(reader)
        alone = PollGroup(
            self._waiting,
            self.source.copy(),
            self.topic,
            self._start_offset,
            self._like,
            self._make_response,
            self._policy,
        )
        alone.add(reader)
        alone.end()

    def end(self) -> None:
        """Respond to all readers now, whether there is new data or not."""
        self._ends = True
        self.wake()

    async def _advance(self) -> None:
        while self.readers and self._woken:
            self._woken = False
            failure: MainstemError | None = None
            try:
                tail = await self.source.refresh()
                if not (has_news(tail, self._start_offset) or self._ends or self._waiting.live.closing):
                    continue
                status, headers, body = await self._make_response(self.source, tail)
            except MainstemError as error:
                status, headers, body = problem_response(error)
                failure = error
            encoded = encode_headers(headers if self._policy is None else self._policy.apply(headers))
            readers = list(self.readers)
            metrics = self._waiting.live.metrics
            metrics.live_frames.of(LONG_POLL).value += len(readers)
            metrics.live_bytes.of(LONG_POLL).value += len(readers) * len(body)
            for start in range(0, len(readers), limits.FAN_OUT_AT_ONCE):
                if start:
                    await asyncio.sleep(0)
                for reader in readers[start : start + limits.FAN_OUT_AT_ONCE]:
                    if reader.group is self:
                        self.release(reader)
                        reply = reader.reply
                        if failure is not None:
                            reply.code = failure.code
                            body = problem_response(failure, reply.request_id)[2]
                        reply.respond(status, [], body, encoded)


class WaitingReaders:
    """All waiting readers of one kind of source."""

    def __init__(self, live: Live, resume: Callable[[LiveReader, SharedFeed], None]) -> None:
        self.live = live
        self.resume = resume
        """Continues a reader in a task, until it has caught up."""
        self.groups: dict[ReaderGroup, None] = {}
        self.loop: asyncio.AbstractEventLoop
        self._sweeps = False

    def add(self, reader: LiveReader, feed: SharedFeed, reply: Reply) -> None:
        """Let a reader of events wait that has received everything."""
        self.loop = asyncio.get_running_loop()
        if not self._join(reader, feed.position):
            self._open(EventGroup(self, feed, reader.topic), reader)
        self._await_deadline(reader, reply)

    def add_poll(
        self,
        reader: LiveReader,
        start: Offset,
        like: Hashable,
        make_response: MakeResponse,
        reply: Reply,
        policy: ReplyPolicy | None = None,
    ) -> None:
        """Let a long-poll wait. Those from the same offset that are equal in `like` and `policy` share a response."""
        self.loop = asyncio.get_running_loop()
        if not self._join(reader, ("long-poll", start, like, policy)):
            self._open(PollGroup(self, reader.source, reader.topic, start, like, make_response, policy), reader)
        self._await_deadline(reader, reply)

    def _join(self, reader: LiveReader, key: Hashable) -> bool:
        group = reader.topic.groups.get(key)
        if not isinstance(group, ReaderGroup) or not group.joinable:
            return False
        group.add(reader)
        return True

    def _open(self, group: ReaderGroup, reader: LiveReader) -> None:
        group.add(reader)
        group.settle()

    def _await_deadline(self, reader: LiveReader, reply: Reply) -> None:
        reader.reply = reply
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
