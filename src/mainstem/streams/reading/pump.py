"""The pump: the loop behind every response that sends server-sent events while the log grows.

A feed knows which bytes come next. The pump knows when to ask for them and when the response ends: at its deadline,
when the caller's token expires, when the client disconnects, or when the server shuts down.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, Protocol

from mainstem import limits
from mainstem.access import Identity, name_caller
from mainstem.errors import RETRY_AFTER, MainstemError, TooManyReaders
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.responses import CORS_HEADERS
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live, Topic, wait_for_change, wake_waiter
from mainstem.shares import Share
from mainstem.streams.jitter import add_jitter
from mainstem.streams.rules import sse

logger = logging.getLogger(__name__)
EVENT_STREAM: Final[HeaderList] = [
    *CORS_HEADERS,
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


Progress = Literal["behind", "caught up", "ended"]
"""The progress of a reader after the events that its feed has just returned: more can be sent immediately, nothing more
until the log grows, or nothing ever again."""


class Feed(Protocol):
    """The events of one response."""

    async def next_events(self) -> tuple[bytes, Progress]:
        """Return the next events, encoded; empty if there are none. The pump asks again after each wake-up and
        heartbeat."""


class DisconnectWatcher:
    """Detects that the client has disconnected, and ends the current wait."""

    __slots__ = ("_task", "_waiter", "disconnected")

    def __init__(self, receive: Receive) -> None:
        self.disconnected = False
        self._waiter: asyncio.Future[bool] | None = None
        self._task = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        if self._waiter is not None:
            wake_waiter(self._waiter)

    def end_on_disconnect(self, waiter: "asyncio.Future[bool]") -> None:
        self._waiter = waiter
        if self.disconnected:
            wake_waiter(waiter)

    def close(self) -> None:
        self._task.cancel()


@contextmanager
def reserve_readers(live: Live, scope: Scope, kind: str, count: int = 1) -> Iterator[None]:
    """Count a live reader of `count` topics. Raise an error above the server's limit or the caller's share."""
    owner = count_readers(live, scope, kind, count)
    try:
        yield
    finally:
        release_readers(live, owner, kind, count)


def release_readers(live: Live, owner: str, kind: str, count: int = 1) -> None:
    live.shares.release(owner, Share.LIVE_READERS, count)
    live.metrics.live_readers.of(kind).value -= 1


def count_readers(live: Live, scope: Scope, kind: str, count: int = 1) -> str:
    """Count live readers for their caller, and return its name. Raise an error above the server's limit or the caller's
    share."""
    if live.readers + count > limits.LIVE_READERS_MAX:
        raise TooManyReaders(
            f"the server already has {live.readers} live readers, and allows {limits.LIVE_READERS_MAX}",
            headers=RETRY_AFTER,
            limit_readers=limits.LIVE_READERS_MAX,
        )
    owner = name_caller(scope["mainstem.identity"], scope.get("client"))
    live.shares.take(owner, Share.LIVE_READERS, count)
    live.metrics.live_readers.of(kind).value += 1
    return owner


def token_seconds_left(scope: Scope, now_us: int) -> float:
    """Return how long a live read may last: it ends when the caller's token expires."""
    identity: Identity = scope["mainstem.identity"]
    return math.inf if identity.expires_at_s is None else identity.expires_at_s - now_us / 1_000_000


def draw_deadline(log: CommitLog, scope: Scope) -> float:
    """Return when an event stream ends, on the clock of the event loop."""
    # Without jitter, all readers of a popular stream would reconnect in the same second.
    lifetime_s = min(add_jitter(log.random, limits.SSE_LIFETIME_S, 0.1), token_seconds_left(scope, log.clock_us()))
    return asyncio.get_running_loop().time() + lifetime_s


async def send_event_stream(
    log: CommitLog,
    topics: Sequence[Topic],
    feed: Feed,
    headers: HeaderList,
    scope: Scope,
    receive: Receive,
    send: Send,
    kind: str,
) -> None:
    """Respond with the events of a feed, asking it for more whenever one of the topics changes."""
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send_events(log, topics, feed, draw_deadline(log, scope), receive, send, kind)


def _never_wait() -> bool:
    return False


async def send_events(
    log: CommitLog,
    topics: Sequence[Topic],
    feed: Feed,
    deadline: float,
    receive: Receive,
    send: Send,
    kind: str,
    wait_elsewhere: Callable[[], bool] = _never_wait,
) -> None:
    """Send the events of a feed and the end of the response, which also ends if the store fails: its head was sent.

    Call `wait_elsewhere` when the feed has no more events. If it returns True, it takes over the rest of the response.
    """
    loop = asyncio.get_running_loop()
    client = DisconnectWatcher(receive)
    frames, sent = log.live.metrics.live_frames.of(kind), log.live.metrics.live_bytes.of(kind)
    try:
        seen = [topic.version for topic in topics]
        while not client.disconnected:
            try:
                events, progress = await feed.next_events()
            except MainstemError as error:  # the reader continues where it is, and then gets this error as the reply
                logger.info("an event stream ends early: %s", error.detail)
                break
            if events:
                frames.value += 1
                sent.value += len(events)
                await send({"type": "http.response.body", "body": events, "more_body": True})
            if progress == "behind":
                continue
            left_s = deadline - loop.time()
            if progress == "ended" or left_s <= 0 or log.live.closing:
                break
            if seen == [topic.version for topic in topics] and not client.disconnected and wait_elsewhere():
                return
            wait_s = min(left_s, limits.SSE_HEARTBEAT_S)
            if await wait_for_change(topics, seen, wait_s, client.end_on_disconnect):
                seen = [topic.version for topic in topics]  # before the next read, so that nothing is missed
            elif left_s <= limits.SSE_HEARTBEAT_S:
                break  # the wait was for the deadline; timers may fire a little early
            elif not client.disconnected:
                await send({"type": "http.response.body", "body": sse.HEARTBEAT, "more_body": True})
    finally:
        client.close()
    if not client.disconnected:
        await send({"type": "http.response.body", "body": b""})
