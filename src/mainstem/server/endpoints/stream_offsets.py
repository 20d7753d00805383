"""`GET /v1/stream-offset/<path>?time=<RFC 3339>`: where the data that was committed from a time on begins."""

from mainstem.access import Identity
from mainstem.errors import BadQuery
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import read_query
from mainstem.http.responses import method_not_allowed, respond_json
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules.paths import parse_path
from mainstem.timestamps import format_time_exactly, parse_time


class StreamOffsets:
    def __init__(self, streams: Streams) -> None:
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            raise method_not_allowed(scope["method"], "GET, OPTIONS")
        path = parse_path(scope["mainstem.subpath"])
        identity: Identity = scope["mainstem.identity"]
        identity.require_read(path)
        query = read_query(scope)
        if "time" not in query:
            raise BadQuery("name the time: ?time=2026-01-31T12:00:00Z")
        time_us = parse_query_time(query["time"])
        offset, committed_at_us = await self.streams.find_time(await self.streams.find(path), time_us)
        committed_at = None if committed_at_us is None else format_time_exactly(committed_at_us)
        await respond_json(send, {"offset": str(offset), "committed_at": committed_at})


def parse_query_time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise BadQuery(
            f"time must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not {text[:64]!r}; write + as %2B"
        ) from None
