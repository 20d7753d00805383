"""`/v1/log`, `/v1/log/head`, `/v1/log/bounds`, `/v1/log/index`: for whoever may see everything."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstem import limits
from mainstem.access import Identity, name_caller
from mainstem.errors import BadQuery, NotAcceptable, NotFound
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.headers import Api, list_exposed
from mainstem.http.requests import collect_headers, parse_query
from mainstem.http.responses import JSON_CONTENT, NO_STORE, SECURITY_HEADERS, method_not_allowed, respond, respond_json
from mainstem.log.commit import CommitLog
from mainstem.log.live import WHOLE_LOG, Topic, wait_for_change
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import CommittedId
from mainstem.server.log_api.exporters import Exporters
from mainstem.server.log_api.formats import ARROW, NDJSON
from mainstem.server.log_api.index import encode_index, find_index, parse_index_query
from mainstem.server.log_api.pages import EncodedPage
from mainstem.server.log_api.selection import Selection, check_parameters, parse_number, parse_selection
from mainstem.streams.reading import sse
from mainstem.streams.reading.live import Departure, seconds_left, take_room

LOG_HEADERS: Final[HeaderList] = [
    *SECURITY_HEADERS,
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", list_exposed(Api.LOG)),
    NO_STORE,
]
LOG_JSON_HEADERS: Final[HeaderList] = [*LOG_HEADERS, JSON_CONTENT]


class LogHttp:
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.exporters = Exporters(log.store)
        self._index_turn = asyncio.Semaphore(1)  # one page of an index at a time: its thread is the server's

    async def stop(self) -> None:
        await self.exporters.stop()

    async def _admit(self, scope: Scope) -> None:
        """What comes before every read of the log."""
        identity: Identity = scope["mainstem.identity"]
        identity.require_admin()
        if scope["method"] != "GET":
            raise method_not_allowed(scope["method"], "GET, OPTIONS")
        await self.log.catch_up()  # another node may have told the caller of something newer

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        raise NotFound("the log is at /v1/log, /v1/log/head, /v1/log/bounds and /v1/log/index")

    # About the log

    async def read_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        await respond_json(send, await self.describe(dict(parse_query(scope))), headers=LOG_JSON_HEADERS)

    async def read_bounds(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        await respond_json(send, await self.bounds(dict(parse_query(scope))), headers=LOG_JSON_HEADERS)

    async def describe(self, query: Mapping[str, str]) -> dict[str, Any]:
        check_parameters(query, "counts")
        if query.get("counts", "false") not in ("true", "false"):
            raise BadQuery("counts is true or false")
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
        """How far a reader may go that wants about so many rows, or bytes."""
        check_parameters(query, "after", "until", "rows", "bytes")
        numbers = {name: parse_number(name, text) for name, text in query.items()}
        if not (numbers.get("rows") or numbers.get("bytes")):
            raise BadQuery("give rows, or bytes, as a whole number above 0")
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
            last = headers.get(b"last-event-id", b"").decode("latin-1")
            if last:
                after, position = parse_event_id(last)
                selection = msgspec.structs.replace(selection, after=after, position=position)
            identity: Identity = scope["mainstem.identity"]
            with take_room(self.log.live, name_caller(identity, scope.get("client"))):
                await self._tail(selection, identity, receive, send)
            return
        format_ = choose_format(headers.get(b"accept", b"").decode("latin-1"))
        page = await self.exporters.page(selection, format_)
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
        return [*headers, (b"log-up-to-date", b"true")] if self._is_up_to_date(selection, page) else headers

    def _is_up_to_date(self, selection: Selection, page: EncodedPage) -> bool:
        return page.next >= min(selection.until, self.log.store.head)

    async def _tail(self, selection: Selection, identity: Identity, receive: Receive, send: Send) -> None:
        live = self.log.live
        headers = [*LOG_HEADERS, (b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seconds_max = min(limits.SSE_LIFETIME_S, seconds_left(identity, self.log.clock_us()))
        small = msgspec.structs.replace(
            selection,
            bytes_max=min(selection.bytes_max, limits.LOG_EVENT_BYTES),
            position=selection.position or 0,
        )
        client = Departure(receive)
        try:
            with live.watch(WHOLE_LOG) as topic:
                await self._send_events(small, seconds_max, topic, client, send)
        finally:
            client.close()
        if not client.left:
            await send({"type": "http.response.body", "body": b""})

    async def _send_events(
        self, selection: Selection, seconds_max: float, topic: Topic, client: Departure, send: Send
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_max
        told = (-1, 0)
        while not (client.left or self.log.live.closing):
            seen = topic.version
            page = await self.exporters.page(selection, NDJSON)
            up_to_date = self._is_up_to_date(selection, page)
            if (page.next, page.position) != told:
                told = page.next, page.position
                await _send_body(send, self._frame(page, up_to_date))
            selection = msgspec.structs.replace(selection, after=page.next, position=page.position)
            if page.next >= selection.until:
                return
            while up_to_date and topic.version == seen and not client.left:
                left_s = deadline - loop.time()
                if left_s <= 0 or self.log.live.closing:
                    return
                await wait_for_change((topic,), (seen,), min(left_s, limits.SSE_HEARTBEAT_S), client.hold)
                if topic.version == seen and not client.left:
                    await _send_body(send, sse.HEARTBEAT)

    def _frame(self, page: EncodedPage, up_to_date: bool) -> bytes:
        data = b"event: data\n%b\n" % sse.encode_lines(page.body[:-1]) if page.rows else b""
        control: dict[str, Any] = {"next": page.next, "head": self.log.store.head, "upToDate": up_to_date}
        place = b"%d" % page.next
        if page.position:
            control["position"] = page.position
            place += b":%d" % page.position
        return data + b"event: control\ndata:%b\nid:%b\n\n" % (msgspec.json.encode(control), place)


def parse_event_id(text: str) -> tuple[int, int]:
    """The id of an event as we sent it: up to where everything was sent, and how much of the next record."""
    after, _, position = text.partition(":")
    return parse_number("Last-Event-ID", after), parse_number("Last-Event-ID", position or "0")


def choose_format(accept: str) -> str:
    """The first that we have; whoever does not care gets the one that can be read as it is."""
    for item in accept.split(","):
        media = item.partition(";")[0].strip().lower()
        if media in (ARROW, NDJSON):
            return media
        if media in ("", "*/*", "application/*"):
            return NDJSON
    raise NotAcceptable(f"the log comes as {ARROW} or as {NDJSON}")


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
