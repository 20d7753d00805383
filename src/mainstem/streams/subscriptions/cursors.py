"""Cursors: how far the streams of a subscription were acknowledged, and how much of each is left, for operators."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.globs import matches
from mainstem.log.commit import CommitLog
from mainstem.log.store import Store
from mainstem.streams.states import STREAMS, StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    LINKS,
    Link,
    Subscription,
    count_lag,
    link_key,
    link_prefix,
    matches_pattern,
)
from mainstem.streams.subscriptions.core.pending import PendingStreams
from mainstem.streams.subscriptions.link_queries import get_links_and_streams, implied_offset


class Lag(NamedTuple):
    """What all subscriptions together have not acknowledged."""

    streams: int
    """How many streams may have new data, counted once per subscription."""
    bytes: int
    complete: bool
    """Whether `bytes` covers all of these streams. If not, it is a lower bound."""
    measured_at_us: int


class StreamCursor(msgspec.Struct, frozen=True, order=True):
    path: str
    type: str
    acked_offset: str
    next_offset: str | None
    """None if the stream does not exist."""
    lag_bytes: int


async def list_cursors(store: Store, state: Subscription, first: Sequence[str]) -> tuple[list[StreamCursor], bool]:
    """Return the cursors of linked streams in the order of their paths, and whether some were left out, which those in
    `first` are last."""
    found: dict[str, None] = {}
    truncated = len(first) > limits.LISTED_CURSORS_MAX
    found.update(dict.fromkeys(first[: limits.LISTED_CURSORS_MAX]))
    async for path in _list_linked(store, state):
        if path is None or (path not in found and len(found) == limits.LISTED_CURSORS_MAX):
            truncated = True
            break
        found[path] = None
    return sorted(await read_cursors(store, state, list(found))), truncated


async def _list_linked(store: Store, state: Subscription) -> AsyncIterator[str | None]:
    """Yield the paths of linked streams. None at the end means that there may be more."""
    prefix, after = link_prefix(state.nonce), ""
    while page := await store.scan(LINKS, prefix, after, limits.SCAN_PAGE):
        for key, _ in page:
            yield key.removeprefix(prefix)
        after = page[-1][0]
    pattern = state.config.pattern
    if pattern is None:
        return
    literal, after, scanned = pattern.partition("*")[0], "", 0
    while page := await store.scan(STREAMS, literal, after, limits.SCAN_PAGE):
        if scanned >= limits.CURSORS_SCANNED_MAX:
            yield None
            return
        for number, (path, stream) in enumerate(page, 1):
            if not number % limits.GLOB_TRIES_AT_ONCE:
                await asyncio.sleep(0)
            if not stream.deleted and not stream.soft_deleted and matches(pattern, path):
                yield path
        scanned += len(page)
        after = page[-1][0]


async def read_cursors(store: Store, state: Subscription, paths: Sequence[str]) -> list[StreamCursor]:
    """Return the cursors of these streams, except those that are not linked."""
    found: list[StreamCursor] = []
    for at in range(0, len(paths), limits.WAKE_STREAMS_MAX):
        some = paths[at : at + limits.WAKE_STREAMS_MAX]
        states = await get_links_and_streams(store, state, some)
        for path in some:
            cursor = await _read_cursor(
                store, state, path, states[link_key(state.nonce, path)], states[stream_key(path)]
            )
            if cursor is not None:
                found.append(cursor)
    return found


async def _read_cursor(
    store: Store, state: Subscription, path: str, link: Link | None, stream: StreamState | None
) -> StreamCursor | None:
    if stream is not None and (stream.deleted or stream.soft_deleted):
        stream = None
    if link is not None:
        acked = link.acked
    elif stream is None or not matches_pattern(state, path) or path == state.config.wake_stream:
        return None
    else:
        acked = await implied_offset(store, state, stream)
    kind = "glob" if link is None else link.type
    end = None if stream is None else str(stream.next_offset)
    return StreamCursor(path, kind, str(acked), end, count_lag(acked, stream))


class LagMeter:
    """Measures the lag of all subscriptions, at most once in `limits.LAG_MEASURE_S`."""

    def __init__(self, log: CommitLog, pending: PendingStreams) -> None:
        self._log = log
        self._pending = pending
        self._latest: Lag | None = None
        self._measuring = asyncio.Lock()

    async def measure(self) -> Lag:
        async with self._measuring:
            now_us = self._log.clock_us()
            lag = self._latest
            if lag is None or not 0 <= now_us - lag.measured_at_us < limits.LAG_MEASURE_S * 1_000_000:
                lag = self._latest = await self._measure(now_us)
            return lag

    async def _measure(self, now_us: int) -> Lag:
        left, size = limits.LAG_STREAMS_MAX, 0
        for name, state in list(self._pending.subscriptions.items()):
            if left <= 0:
                break
            if self._pending.has_paths(name):
                paths = self._pending.paths(name)[:left]
                left -= len(paths)
                size += sum(cursor.lag_bytes for cursor in await read_cursors(self._log.store, state, paths))
        count = self._pending.count_pending()
        return Lag(count, size, count <= limits.LAG_STREAMS_MAX, now_us)
