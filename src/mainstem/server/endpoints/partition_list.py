"""`GET /v1/partitions?prefix=&after=&limit=`: the partitions that the caller may use, sorted by name."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mainstem import limits
from mainstem.access import Identity
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import parse_count, read_query
from mainstem.http.responses import respond_json
from mainstem.log.store.base import Store
from mainstem.sync.states import PARTITIONS, PartitionState, partition_key


class Range(NamedTuple):
    """Some of the partitions that a caller may use: all with a prefix, or the one with this name."""

    name: str
    is_prefix: bool


class PartitionList:
    """A partition is listed while it has events, a floor or a snapshot."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = read_query(scope)
        limit = parse_count(query.get("limit", str(limits.LISTED_STREAMS)), "limit", limits.LISTED_STREAMS_MAX)
        identity: Identity = scope["mainstem.identity"]
        found = await self._find(query.get("prefix", ""), query.get("after", ""), limit + 1, identity)
        body = {"partitions": found[:limit], "next": found[limit - 1]["partition"] if len(found) > limit else None}
        await respond_json(send, body)

    async def _find(self, prefix: str, after: str, limit: int, identity: Identity) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for range_ in list_ranges(prefix, identity):
            if len(found) >= limit:
                break
            if range_.is_prefix:
                found += await self._scan(range_.name, after, limit - len(found))
            elif range_.name > after:
                found += await self._look_up(range_.name)
        return found

    async def _scan(self, prefix: str, after: str, limit: int) -> list[dict[str, Any]]:
        """Return partitions from the index of events and from the states: a pruned one may only have a state."""
        ends = dict(await self.store.list_tags(prefix, after, limit))
        states = dict(await self.store.scan(PARTITIONS, prefix, after, limit))
        names = sorted({*ends, *states})[:limit]
        return [describe_partition(name, ends.get(name, 0), states.get(name)) for name in names]

    async def _look_up(self, name: str) -> list[dict[str, Any]]:
        end = await self.store.last_tagged(name)
        state = await self.store.get(partition_key(name))
        return [describe_partition(name, end, state)] if end or state is not None else []


def list_ranges(prefix: str, identity: Identity) -> Iterator[Range]:
    """Yield what the caller may use of the partitions with a prefix, in order. No range covers another."""
    if identity.admin:
        yield Range(prefix, True)
        return
    granted = [Range(prefix, True) for granted in identity.partition_prefixes if prefix.startswith(granted)]
    granted += [Range(name, True) for name in identity.partition_prefixes if name.startswith(prefix)]
    granted += [Range(name, False) for name in identity.partitions if name.startswith(prefix)]
    last: Range | None = None
    for range_ in sorted(granted, key=lambda range_: (range_.name, not range_.is_prefix)):
        # A prefix sorts before everything that it covers, and nothing else comes in between.
        if last is None or not last.is_prefix or not range_.name.startswith(last.name):
            yield range_
            last = range_


def describe_partition(name: str, newest: int, state: PartitionState | None) -> dict[str, Any]:
    floor = 0 if state is None else state.floor
    return {
        "partition": name,
        "last_committed_id": max(newest, floor),
        "floor": floor,
        "snapshot_committed_id": None if state is None else state.snapshot_id or None,
    }
