"""The list of streams, in pages: an extension of the protocol."""

from os.path import commonprefix
from typing import Any

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import StreamGone, StreamNotFound
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import parse_count, read_query
from mainstem.http.responses import respond_json
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules import lifecycle
from mainstem.streams.states import STREAMS, StreamState
from mainstem.timestamps import format_time


class StreamsListing:
    """`GET /v1/streams?prefix=&search=&after=&limit=`: streams sorted by path."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = read_query(scope)
        limit = parse_count(query.get("limit", str(limits.LISTED_STREAMS)), "limit", limits.LISTED_STREAMS_MAX)
        identity: Identity = scope["mainstem.identity"]
        identity.require_grants("listing them")
        prefix, search = query.get("prefix", ""), query.get("search", "")
        found, following = await self._find(prefix, search, query.get("after", ""), limit, identity)
        body = {"streams": [describe(path, state, identity) for path, state in found], "next": following}
        await respond_json(send, body)

    async def _find(
        self, prefix: str, search: str, after: str, limit: int, identity: Identity
    ) -> tuple[list[tuple[str, StreamState]], str | None]:
        """Return one page of streams, and the path after which the next page begins; None if there is none.

        It may take several scans, because deleted streams and streams that the caller may not read are skipped. A
        search ends early once it has compared many paths. The reply must not name a path that the caller may not read,
        so it ends only after one that the caller may.
        """
        log = self.streams.log
        prefix, wanted = narrow_prefix(prefix, identity), search.casefold()
        found: list[tuple[str, StreamState]] = []
        compared, last = 0, after
        while True:
            page = await log.store.scan(STREAMS, prefix, after, limits.SCAN_PAGE)
            for path, state in page:
                if not identity.may_read(path):
                    continue
                if wanted:
                    if compared == limits.SEARCHED_STREAMS_MAX:
                        return found, last
                    compared, last = compared + 1, path
                    if wanted not in path.casefold():
                        continue
                if lifecycle.is_gone(state, log.clock_us(), self.streams.touched_us(path)):
                    # The scan may be older than the last read, which is forgotten once it is durable: look again.
                    state = None if state.ttl_s is None else await self._find_again(path)
                if state is None or state.soft_deleted:
                    continue
                if len(found) == limit:
                    return found, found[-1][0]
                found.append((path, state))
            if len(page) < limits.SCAN_PAGE:
                return found, None
            after = page[-1][0]

    async def _find_again(self, path: str) -> StreamState | None:
        try:
            return await self.streams.find(path)
        except (StreamNotFound, StreamGone):
            return None


def narrow_prefix(prefix: str, identity: Identity) -> str:
    """Return a longer prefix that still covers everything that the caller may read, or `prefix` if there is none."""
    if identity.admin or not identity.stream_reads:
        return prefix
    literals = [pattern.partition("*")[0].removesuffix("/") for pattern in identity.stream_reads]
    common = commonprefix(literals)  # noqa: RUF071 (a scan takes a prefix of characters)
    return common if common.startswith(prefix) else prefix


def describe(path: str, state: StreamState, identity: Identity) -> dict[str, Any]:
    origin = state.origin
    inherited = state.lineage[-1].end if state.lineage else 0
    return {
        "path": path,
        "content_type": state.content_type,
        "next_offset": str(state.next_offset),
        "earliest_offset": str(state.earliest_offset),
        "closed": state.closed,
        "created_at": format_time(state.created_at_us),
        "ttl_seconds": state.ttl_s,
        "expires_at": state.expires_at_text,
        "forked_from": None if origin is None or not identity.may_read(origin.path) else origin.path,
        "messages": state.messages,
        "bytes": state.tail - max(state.earliest, inherited),
    }
