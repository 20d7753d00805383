"""`/v1/log`, `/v1/log/head`, `/v1/log/bounds` and `/v1/log/index`, for administrators."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadQuery, NotAcceptable, NotFound
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.headers import Api, list_exposed
from mainstem.http.requests import collect_headers, parse_query
from mainstem.http.responses import JSON_CONTENT, NO_STORE, SECURITY_HEADERS, method_not_allowed, respond, respond_json
from mainstem.log.commit import CommitLog
from mainstem.log.live import WHOLE_LOG
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import CommittedId
from mainstem.server.log_api.exporters import Exporters
from mainstem.server.log_api.formats import ARROW, NDJSON
from mainstem.server.log_api.index import encode_index, find_index, parse_index_query
from mainstem.server.log_api.pages import EncodedPage, is_up_to_date
from mainstem.server.log_api.selection import Selection, check_parameters, parse_number, parse_selection
from mainstem.server.log_api.tail import LogFeed, resume
from mainstem.streams.reading.pump import reserve_readers, send_event_stream
from mainstem.traces import read_traced

LOG_HEADERS: Final[HeaderList] = [
    *SECURITY_HEADERS,
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", list_exposed(Api.LOG)),
    NO_STORE,
]
LOG_JSON_HEADERS: Final[HeaderList] = [*LOG_HEADERS, JSON_CONTENT]
EVENT_STREAM: Final[HeaderList] = [*LOG_HEADERS, (b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class LogHttp:
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.exporters = Exporters(log.store, log.metrics)
        self._index_turn = asyncio.Semaphore(1)  # one page of an index at a time: its thread slows down the server

    async def stop(self) -> None:
        await self.exporters.stop()

    async def _admit(self, scope: Scope) -> None:
        """Check the caller and the method, and catch up with other nodes, before any read of the log."""
        identity: Identity = scope["mainstem.identity"]
        identity.require_admin()
        if scope["method"] != "GET":
            raise method_not_allowed(scope["method"], "GET, OPTIONS")
        await self.log.catch_up()  # the caller may know a newer head from another node

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        raise NotFound("nothing is served here; the log is at /v1/log, /v1/log/head, /v1/log/bounds and /v1/log/index")

    # Facts about the log

    async def read_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        await respond_json(send, await self.describe(dict(parse_query(scope))), headers=LOG_JSON_HEADERS)

    async def read_bounds(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        await respond_json(send, await self.bounds(dict(parse_query(scope))), headers=LOG_JSON_HEADERS)

    async def describe(self, query: Mapping[str, str]) -> dict[str, Any]:
        check_parameters(query, "counts")
        if query.get("counts", "false") not in ("true", "false"):
            raise BadQuery("counts must be true or false")
        store = self.log.store
        first = await store.read_log(CommittedId(0), store.head, 1)
        pruned: Pruned | None = await store.get(PRUNED_KEY)
        about: dict[str, Any] = {
            "head": store.head,
            "lowest": first[0].committed_id if first else store.head + 1,
            "pruned": 0 if pruned is None else pruned.until,
        }
        if query.get("counts") == "true":
            about |= msgspec.structs.asdict(await store.count())
        return about

    async def bounds(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return how far to read to get about the requested number of rows or bytes."""
        check_parameters(query, "after", "until", "rows", "bytes")
        numbers = {name: parse_number(name, text) for name, text in query.items()}
        if not (numbers.get("rows") or numbers.get("bytes")):
            raise BadQuery("rows or bytes is required, as a whole number above 0")
        head = self.log.store.head
        extent = await self.log.store.measure(
            CommittedId(numbers.get("after", 0)),
            CommittedId(min(numbers.get("until", head), head)),
            numbers.get("rows") or limits.INTEGER_MAX,
            numbers.get("bytes") or limits.INTEGER_MAX,
        )
        return msgspec.structs.asdict(extent)

    async def read_index(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        query = parse_index_query(dict(parse_query(scope)))
        format_ = choose_format(collect_headers(scope["headers"]).get(b"accept", b"").decode("latin-1"))
        async with self._index_turn:
            page = await find_index(self.log.store, query)
            body = await asyncio.to_thread(encode_index, page, query.of, format_)
        headers = [*LOG_HEADERS, (b"content-type", format_.encode()), (b"log-rows", str(len(page.found)).encode())]
        if page.next is not None:
            headers.append((b"log-next", quote(page.next, safe="").encode()))
        await respond(send, 200, headers, body)

    # Reading

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        selection = parse_selection(scope)
        headers = collect_headers(scope["headers"])
        if dict(parse_query(scope)).get("live") == "sse":
            selection = resume(selection, headers.get(b"last-event-id", b"").decode("latin-1"))
            with reserve_readers(self.log.live, scope, "log"), self.log.live.watch(WHOLE_LOG) as topic:
                feed = LogFeed(self.log, self.exporters, selection)
                await send_event_stream(self.log, (topic,), feed, EVENT_STREAM, scope, receive, send, "log")
            return
        format_ = choose_format(headers.get(b"accept", b"").decode("latin-1"))
        page = await read_traced(self.exporters.page(selection, format_), measure_page)
        await respond(
            send,
            200,
            [*LOG_HEADERS, (b"content-type", format_.encode()), *self._page_headers(selection, page)],
            page.body,
        )

    def _page_headers(self, selection: Selection, page: EncodedPage) -> HeaderList:
        headers = [
            (b"log-next", str(page.next).encode()),
            (b"log-head", str(self.log.store.head).encode()),
            (b"log-rows", str(page.rows).encode()),
        ]
        if page.position:
            headers.append((b"log-position", str(page.position).encode()))
        up_to_date = is_up_to_date(selection, page, self.log.store.head)
        return [*headers, (b"log-up-to-date", b"true")] if up_to_date else headers


def measure_page(page: EncodedPage) -> int:
    return len(page.body)


def choose_format(accept: str) -> str:
    """Return the first format in Accept that the server has; NDJSON, which people can read, for any."""
    for item in accept.split(","):
        media = item.partition(";")[0].strip().lower()
        if media in (ARROW, NDJSON):
            return media
        if media in ("", "*/*", "application/*"):
            return NDJSON
    raise NotAcceptable(f"the log is available as {ARROW} and as {NDJSON}")
