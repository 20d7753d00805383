"""Partitions of the sync protocol over HTTP: anybody with access reads them like streams; administrators prune them.

GET, HEAD /v1/partition/<name>          catch-up, long-poll and SSE; an offset is a committed id
PUT, GET, HEAD /v1/snapshot/<name>      {"committed_id": 7, "state": ...}
POST      /v1/prune                     {"floors": {"<name>": 7}, "streams": {"<path>": "<offset>"}}
"""

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadOffset, BadRequest, NotFound, OffsetGone, ValidationFailed
from mainstem.http.asgi import Headers, Receive, Scope, Send
from mainstem.http.requests import collect_headers, decode_json, read_body
from mainstem.http.responses import (
    CORS_HEADERS,
    JSON_CONTENT,
    NO_STORE,
    method_not_allowed,
    respond,
    respond_head,
    respond_json,
)
from mainstem.log.commit import CommitLog
from mainstem.log.records import CommittedId
from mainstem.streams.http.headers import parse_read
from mainstem.streams.http.reads import ReadRequest, Reads
from mainstem.streams.reading.page_cache import CachedPage
from mainstem.streams.reading.reader import Page, Streams
from mainstem.streams.rules import json_mode, paths
from mainstem.streams.rules.offsets import Offset, Sentinel
from mainstem.sync.commands import PutSnapshot, RaiseFloors
from mainstem.sync.hub import Hub
from mainstem.sync.protocol.messages import complete_event
from mainstem.sync.protocol.partitions import normalise
from mainstem.sync.pruner import Pruner
from mainstem.sync.states import PartitionState, Snapshot, partition_key, snapshot_key
from mainstem.timestamps import format_time

ALLOW = "GET, HEAD, PUT, POST, OPTIONS"


class SnapshotRequest(msgspec.Struct):
    committed_id: int
    state: msgspec.Raw


class PruneRequest(msgspec.Struct):
    floors: dict[str, int] = {}
    streams: dict[str, str] = {}
    """From a path to the offset before which to discard the history."""


class PartitionSource:
    """A partition as a source of live reads. It is never closed, and every partition exists."""

    content_type = json_mode.JSON

    def __init__(self, log: CommitLog, name: str) -> None:
        self.log = log
        self.name = self.key = name
        self._end = Offset(0, 0)
        self._floor = 0

    @property
    def in_memory(self) -> bool:
        return False

    def copy(self) -> "PartitionSource":
        source = PartitionSource(self.log, self.name)
        source._end, source._floor = self._end, self._floor
        return source

    def add_reader(self) -> None:
        pass

    def remove_reader(self) -> None:
        pass

    @property
    def tail(self) -> tuple[Offset, bool]:
        return self._end, False

    def find_page(self, start: Offset, accepts: str | None) -> None:
        return None  # a page depends on what is pruned, too

    def keep_page(self, start: Offset, accepts: str | None, page: CachedPage) -> None:
        pass

    async def refresh(self) -> tuple[Offset, bool]:
        state: PartitionState = await self.log.store.get(partition_key(self.key)) or PartitionState()
        self._floor = state.floor
        self._end = Offset(0, max(await self.log.store.last_tagged(self.key), state.floor))
        return self.tail

    async def read(self, at: Offset, bytes_max: int) -> Page:
        records = await self.log.store.read_tagged(
            [self.key], CommittedId(at.position), CommittedId(self._end.position), limits.SYNC_PAGE_MAX, bytes_max
        )
        await self._check_floor(at)
        rows = [complete_event(r.data, r.committed_id, r.committed_at_us) for r in records]
        end = Offset(0, records[-1].committed_id) if records else at
        return Page(at, end, b"".join(row + b"," for row in rows), end >= self._end, False)

    async def _check_floor(self, at: Offset) -> None:
        """Refuse a page without the events that were pruned while it was read."""
        state: PartitionState = await self.log.store.get(partition_key(self.key)) or PartitionState()
        if state.floor > self._floor and state.floor > at.position:
            raise _gone(state.floor)


class PartitionsHttp:
    def __init__(self, hub: Hub, pruner: Pruner, streams: Streams, *, long_poll_ms: int, page_bytes: int) -> None:
        self.hub = hub
        self.streams = streams
        self.log = hub.log
        self.pruner = pruner
        self.reads = Reads(
            self.log,
            long_poll_ms=long_poll_ms,
            page_bytes=page_bytes,
            page_headers=[*CORS_HEADERS, (b"content-type", json_mode.JSON.encode())],
            cache_control=b"private, no-cache",
            compresses=False,
        )

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = collect_headers(scope["headers"])
        identity: Identity = scope["mainstem.identity"]
        if scope["method"] not in ("GET", "HEAD"):
            identity.require_admin()
            raise method_not_allowed(scope["method"], ALLOW)
        name = parse_name(scope["mainstem.subpath"])
        if not identity.may_use(name):
            raise identity.forbid(f"reading the partition {name!r}")
        await self._read(name, headers, scope, receive, send)

    async def snapshot(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = collect_headers(scope["headers"])
        _require_admin(scope)
        method = scope["method"]
        if method not in ("PUT", "GET", "HEAD"):
            raise method_not_allowed(method, ALLOW)
        name = parse_name(scope["mainstem.subpath"])
        if method == "PUT":
            await self._put_snapshot(name, headers, receive, send)
        else:
            await self._get_snapshot(name, method == "HEAD", send)

    async def prune(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = collect_headers(scope["headers"])
        _require_admin(scope)
        if scope["method"] != "POST":
            raise method_not_allowed(scope["method"], ALLOW)
        await self._prune(headers, receive, send)

    # Reading

    async def _read(self, name: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        live, wanted, cursor = parse_read(headers, scope)
        source = PartitionSource(self.log, name)
        tail, _ = await source.refresh()
        start = await self._resolve(name, wanted, tail)
        if scope["method"] == "HEAD":
            about = [(b"content-type", json_mode.JSON.encode()), (b"stream-next-offset", str(tail).encode())]
            await respond_head(send, [*CORS_HEADERS, *about, NO_STORE])
            return
        request = ReadRequest(live, start, cursor, headers, [])
        with_etag = wanted is not Sentinel.NOW
        await self.reads.respond(source, request, [], scope, receive, send, with_etag=with_etag)

    async def _resolve(self, name: str, offset: Offset | Sentinel, tail: Offset) -> Offset:
        state: PartitionState = await self.log.store.get(partition_key(name)) or PartitionState()
        if offset is Sentinel.BEGINNING:
            return Offset(0, state.floor)
        if offset is Sentinel.NOW:
            return Offset(0, max(tail.position, state.floor))
        if offset.read_seq != 0 or offset.position > self.hub.head:
            raise BadOffset(f"{offset} is beyond the end of the log")
        if offset.position < state.floor:
            raise _gone(state.floor)
        return offset

    # Snapshots and pruning

    async def _put_snapshot(self, name: str, headers: Headers, receive: Receive, send: Send) -> None:
        body = await read_body(headers, receive, limits.SNAPSHOT_BYTES_MAX)
        request = decode_json(body, SnapshotRequest)
        await self.log.submit(PutSnapshot(name, request.committed_id, bytes(request.state)))
        await respond(send, 204, CORS_HEADERS)

    async def _get_snapshot(self, name: str, head: bool, send: Send) -> None:
        """Send a snapshot, or for HEAD only where it ends. Both send the floor, even if there is no snapshot."""
        state: PartitionState = await self.log.store.get(partition_key(name)) or PartitionState()
        floor = str(state.floor)
        facts = [(b"partition-floor", floor.encode()), (b"snapshot-committed-id", str(state.snapshot_id).encode())]
        about = [*CORS_HEADERS, JSON_CONTENT, NO_STORE, *facts]
        if head and state.snapshot_id:
            await respond_head(send, about)
            return
        snapshot: Snapshot | None = await self.log.store.get(snapshot_key(name))
        if snapshot is None:
            raise NotFound(f"the partition {name!r} has no snapshot", headers={"Partition-Floor": floor})
        if head:
            await respond_head(send, about)
            return
        body = {
            "partition": name,
            "committed_id": snapshot.committed_id,
            "created_at": format_time(snapshot.created_at_us),
            "floor": state.floor,
            "state": msgspec.Raw(snapshot.state),
        }
        await respond_json(send, body, headers=about)

    async def _prune(self, headers: Headers, receive: Receive, send: Send) -> None:
        body = await read_body(headers, receive, limits.CONTROL_BODY_BYTES_MAX)
        request = decode_json(body, PruneRequest)
        if not 1 <= len(request.floors) + len(request.streams) <= limits.FLOORS_MAX:
            raise BadRequest(f"floors and streams must name 1 to {limits.FLOORS_MAX} partitions and streams together")
        floors = tuple((check_name(name), floor) for name, floor in request.floors.items())
        offsets = [(path, Offset.parse(text)) for path, text in request.streams.items()]
        if floors:
            await self.log.submit(RaiseFloors(floors))
            self.pruner.wake()
        for path, offset in offsets:
            await self.streams.trim(path, offset)
        await respond(send, 202, CORS_HEADERS)


def _gone(floor: int) -> OffsetGone:
    earliest = str(Offset(0, floor))
    return OffsetGone(
        f"the history up to {earliest} has been pruned",
        headers={"Stream-Earliest-Offset": earliest},
        earliest_offset=earliest,
    )


def _require_admin(scope: Scope) -> None:
    identity: Identity = scope["mainstem.identity"]
    identity.require_admin()


def parse_name(raw: bytes) -> str:
    return check_name(paths.unquote_text(raw))


def check_name(name: str) -> str:
    try:
        return normalise([name])[0]
    except ValidationFailed as fault:
        raise BadRequest(fault.detail) from None
