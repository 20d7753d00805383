"""Queries for the links of a subscription: to list them, to wake and retry, and to delete them."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.globs import matches
from mainstem.log.commands import Key
from mainstem.log.commit import CommitLog
from mainstem.log.records import TopicId
from mainstem.log.store import Store
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import STREAMS, StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    LINKS,
    DropLinks,
    Link,
    Subscription,
    has_pending,
    link_key,
    link_prefix,
    matches_pattern,
)
from mainstem.streams.subscriptions.core.wakes import Candidate, LinkedStream

logger = logging.getLogger(__name__)


class ListedLink(msgspec.Struct, frozen=True, order=True):
    """A linked stream as a client sees it."""

    path: str
    link_type: str
    acked_offset: str


async def list_links(store: Store, state: Subscription) -> list[ListedLink]:
    """Return the linked streams sorted by path, up to a limit."""
    prefix = link_prefix(state.nonce)
    found: dict[str, ListedLink] = {}
    for key, link in await store.scan(LINKS, prefix, "", limits.LISTED_LINKS_MAX):
        path = key.removeprefix(prefix)
        found[path] = ListedLink(path, link.type, str(link.acked))
    if state.config.pattern is not None:
        await _add_implied(store, state, state.config.pattern, found)
    return sorted(found.values())


async def _add_implied(store: Store, state: Subscription, pattern: str, found: dict[str, ListedLink]) -> None:
    after = ""
    literal = pattern.partition("*")[0]
    while len(found) < limits.LISTED_LINKS_MAX:
        page = await store.scan(STREAMS, literal, after, limits.SCAN_PAGE)
        for number, (path, stream) in enumerate(page, 1):
            if not number % limits.GLOB_TRIES_AT_ONCE:
                await asyncio.sleep(0)
            if path in found or stream.deleted or stream.soft_deleted:
                continue
            if matches(pattern, path) and path != state.config.wake_stream:
                found[path] = ListedLink(path, "glob", str(await implied_offset(store, state, stream)))
        if len(page) < limits.SCAN_PAGE:
            return
        after = page[-1][0]


async def implied_offset(store: Store, state: Subscription, stream: StreamState) -> Offset:
    """Return where the link to a stream begins if it is only implied by the pattern."""
    if stream.last_id <= state.created_id:
        return stream.next_offset
    start = await store.first_after(stream.topic, state.created_id)
    return Offset(stream.read_seq, start or 0)


async def implied_starts(
    store: Store, state: Subscription, paths: Iterable[str]
) -> tuple[tuple[str, TopicId, int], ...]:
    """Return where the links begin that are implied by the pattern and have pending data."""
    found: list[tuple[str, TopicId, int]] = []
    for path in paths:
        stream: StreamState | None = await store.get(stream_key(path))
        if stream is not None and has_pending(state, path, None, stream):
            start = await store.first_after(stream.topic, state.created_id)
            if start is not None:
                found.append((path, stream.topic, start))
    return tuple(found)


async def find_implied_start(store: Store, state: Subscription, path: str) -> tuple[TopicId, int] | None:
    """Return where the link to a stream begins if it is only implied by the pattern: its topic and position."""
    states = await get_links_and_streams(store, state, [path])
    stream: StreamState | None = states[stream_key(path)]
    if states[link_key(state.nonce, path)] is not None or stream is None or not matches_pattern(state, path):
        return None
    return stream.topic, (await implied_offset(store, state, stream)).position


async def find_candidates(store: Store, state: Subscription, paths: Sequence[str]) -> tuple[Candidate, ...]:
    """Return the candidates of a wake, with the start of each link that is only implied."""
    states = await get_links_and_streams(store, state, paths)
    found: list[Candidate] = []
    for path in paths:
        link, stream = states[link_key(state.nonce, path)], states[stream_key(path)]
        if link is None and has_pending(state, path, None, stream):
            start = await store.first_after(stream.topic, state.created_id)
            found.append(Candidate(path, stream.topic, start))
        else:
            found.append(Candidate(path))
    return tuple(found)


async def find_up_to_date(store: Store, state: Subscription, paths: Sequence[str]) -> list[str]:
    """Return the streams that have nothing new."""
    states = await get_links_and_streams(store, state, paths)
    return [
        path
        for path in paths
        if not has_pending(state, path, states[link_key(state.nonce, path)], states[stream_key(path)])
    ]


async def get_links_and_streams(store: Store, state: Subscription, paths: Sequence[str]) -> dict[Key, Any]:
    """Return the states of the links to some streams, and of the streams."""
    return await store.get_many([link_key(state.nonce, path) for path in paths] + [stream_key(path) for path in paths])


async def read_snapshot(store: Store, state: Subscription) -> tuple[LinkedStream, ...]:
    """Return the streams of a wake for a retry, with the same end offsets as before."""
    links = await store.get_many([link_key(state.nonce, path) for path, _ in state.snapshot])
    streams: list[LinkedStream] = []
    for path, tail in state.snapshot:
        link: Link | None = links[link_key(state.nonce, path)]
        if link is not None:
            streams.append(LinkedStream(path, link.type, str(link.acked), tail, str(link.acked) < tail))
    return tuple(streams)


async def drop_links(log: CommitLog, nonce: str) -> None:
    """Delete the links of a deleted subscription, in small steps."""
    prefix = link_prefix(nonce)
    try:
        while page := await log.store.scan(LINKS, prefix, "", limits.ERASE_RECORDS_MAX):
            await log.submit(DropLinks(nonce, tuple(key.removeprefix(prefix) for key, _ in page)))
    except MainstemError as error:
        logger.warning("links of a deleted subscription remain until the next start: %s", error.detail)
