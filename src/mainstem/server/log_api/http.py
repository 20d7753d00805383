"""`/v1/log` and the paths below it, for administrators."""

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
from mainstem.log.identity import IDENTITY_KEY, LogIdentity
from mainstem.log.live import WHOLE_LOG
from mainstem.log.records import CommittedId
from mainstem.server.endpoints.stream_offsets import parse_query_time
from mainstem.server.log_api.cuts import Division, divide, parse_cut_query
from mainstem.server.log_api.exporters import Exporters
from mainstem.server.log_api.formats import ARROW, NDJSON
from mainstem.server.log_api.ids import find_offset, find_time
from mainstem.server.log_api.index import encode_index, find_index, parse_index_query
from mainstem.server.log_api.pages import EncodedPage, is_up_to_date
from mainstem.server.log_api.pruned import PrunedIds
from mainstem.server.log_api.selection import (
    Parse,
    Selection,
    check_parameters,
    collect_parameters,
    parse_kind,
    parse_number,
    parse_selection,
    parse_text,
    select,
)
from mainstem.server.log_api.tail import LogFeed, resume
from mainstem.streams.reading.pump import reserve_readers, send_event_stream
from mainstem.streams.rules.offsets import Offset
from mainstem.timestamps import format_time_exactly
from mainstem.traces import read_traced

LOG_HEADERS: Final[HeaderList] = [
    *SECURITY_HEADERS,
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", list_exposed(Api.LOG)),
    NO_STORE,
]
LOG_JSON_HEADERS: Final[HeaderList] = [*LOG_HEADERS, JSON_CONTENT]
EVENT_STREAM: Final[HeaderList] = [*LOG_HEADERS, (b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


def parse_flag(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise BadQuery(f"{name} must be true or false")
    return text == "true"


CUT_NUMBERS: Final = ("after", "until", "parts", "min_bytes", "max_bytes", "max_rows")
CUT_PARAMETERS: Final[dict[str, Parse]] = {
    **dict.fromkeys(CUT_NUMBERS, parse_number),
    "kind": parse_kind,
    "prefix": parse_text,
}
HEAD_PARAMETERS: Final[dict[str, Parse]] = {"counts": parse_flag, "kind": parse_kind, "prefix": parse_text}


class LogHttp:
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.exporters = Exporters(log.store, log.metrics)
        self.pruned = PrunedIds(log)
        self._cuts_turn = asyncio.Semaphore(1)  # each measures many records
        self._index_turn = asyncio.Semaphore(1)  # one page of an index at a time: its thread slows down the server

    async def stop(self) -> None:
        self.pruned.stop()
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
        raise NotFound("nothing is served here; the log is at /v1/log, and below it are head, bounds, cuts, id, index")

    # Facts about the log

    async def read_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        values, lists = collect_parameters(parse_query(scope), HEAD_PARAMETERS)
        about = await self.describe(select(values, lists), counts=values.get("counts", False))
        await respond_json(send, about, headers=LOG_JSON_HEADERS)

    async def read_bounds(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        await respond_json(send, await self.bounds(dict(parse_query(scope))), headers=LOG_JSON_HEADERS)

    async def describe(self, selection: Selection, *, counts: bool) -> dict[str, Any]:
        """Return the identity, the bounds and the time of the log. Only `pruned` depends on the selection."""
        now = format_time_exactly(self.log.clock_us())  # read before the head, which holds everything older
        store = self.log.store
        first = await store.read_log(CommittedId(0), store.head, 1)
        identity: LogIdentity | None = await store.get(IDENTITY_KEY)
        about: dict[str, Any] = {
            "log": None if identity is None else identity.id,
            "epoch": None if identity is None else identity.epoch.name,
            "head": store.head,
            "lowest": first[0].committed_id if first else store.head + 1,
            "pruned": await self.pruned.find(selection),
            "now": now,
            "epochs": [] if identity is None else [msgspec.structs.asdict(epoch) for epoch in identity.epochs],
        }
        if counts:
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

    async def read_cuts(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        values, lists = collect_parameters(parse_query(scope), CUT_PARAMETERS)
        selection = select({name: values[name] for name in ("kind", "prefix") if name in values}, lists)
        async with self._cuts_turn:
            topics = await self.exporters.find_topics(selection)
            found: Division = await divide(self.log.store, parse_cut_query(values, self.log.store.head), topics)
        await respond_json(send, msgspec.to_builtins(found), headers=LOG_JSON_HEADERS)

    async def read_id(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        query = dict(parse_query(scope))
        check_parameters(query, "after", "time", "stream", "offset")
        store = self.log.store
        if ("stream" in query) != ("offset" in query) or ("stream" in query and len(query) > 2):
            raise BadQuery("stream and offset belong together, without after and time")
        after = parse_number("after", query.get("after", "0"))
        if "stream" in query:
            record = await find_offset(store, query["stream"], Offset.parse(query["offset"]))
        elif "time" in query:
            record = await find_time(store, after, parse_query_time(query["time"]))
        else:
            record = await store.first_record(CommittedId(after))
        about: dict[str, Any] = {"committed_id": store.head + 1, "committed_at": None, "age_s": None}
        if record is not None:
            age_us = max(self.log.clock_us() - record.committed_at_us, 0)
            about = {
                "committed_id": record.committed_id,
                "committed_at": format_time_exactly(record.committed_at_us),
                "age_s": age_us / 1_000_000,
            }
        await respond_json(send, about, headers=LOG_JSON_HEADERS)

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
