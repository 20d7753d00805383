"""Snapshots of JSON streams over HTTP: administrators store them; anybody who may read the stream may read them.

PUT, GET, HEAD /v1/stream-snapshot/<path>    {"committed_id": 7, "offset": "...", "state": ...}
"""

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import NotFound
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
from mainstem.streams.commands.snapshot import PutStreamSnapshot, current_snapshot
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.rules.paths import parse_path
from mainstem.streams.states import StreamState, stream_snapshot_key
from mainstem.timestamps import format_time


class StreamSnapshotRequest(msgspec.Struct):
    committed_id: int
    offset: str
    state: msgspec.Raw


class StreamSnapshots:
    def __init__(self, streams: Streams) -> None:
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity: Identity = scope["mainstem.identity"]
        method: str = scope["method"]
        name = parse_path(scope["mainstem.subpath"])
        if method == "PUT":
            identity.require_admin()
            await self._put(name, collect_headers(scope["headers"]), receive, send)
        elif method in ("GET", "HEAD"):
            identity.require_read(name)
            await self._get(name, method == "HEAD", send)
        else:
            raise method_not_allowed(method, "GET, HEAD, PUT, OPTIONS")

    async def _put(self, path: str, headers: Headers, receive: Receive, send: Send) -> None:
        body = await read_body(headers, receive, limits.SNAPSHOT_BYTES_MAX)
        request = decode_json(body, StreamSnapshotRequest)
        command = PutStreamSnapshot(
            path,
            request.committed_id,
            Offset.parse(request.offset),
            bytes(request.state),
            self.streams.touched_us(path),
        )
        await self.streams.log.submit(command)
        await respond(send, 204, CORS_HEADERS)

    async def _get(self, path: str, head: bool, send: Send) -> None:
        """Send a snapshot, or for HEAD only its headers. Both name the part of the stream that is still kept."""
        stream: StreamState = await self.streams.find(path)
        kept = {
            "Stream-Earliest-Offset": str(stream.earliest_offset),
            "Stream-Next-Offset": str(stream.next_offset),
        }
        found = await self.streams.log.store.get(stream_snapshot_key(path))
        snapshot = current_snapshot(stream, found)
        if snapshot is None:
            raise NotFound(f"the stream {path!r} has no snapshot", headers=kept)
        offset = str(Offset(stream.read_seq, snapshot.position))
        about = [*CORS_HEADERS, JSON_CONTENT, NO_STORE]
        about += [(name.lower().encode(), value.encode()) for name, value in kept.items()]
        about += [
            (b"snapshot-committed-id", str(snapshot.committed_id).encode()),
            (b"snapshot-offset", offset.encode()),
        ]
        if head:
            await respond_head(send, about)
            return
        body = {
            "stream": path,
            "committed_id": snapshot.committed_id,
            "offset": offset,
            "created_at": format_time(snapshot.created_at_us),
            "state": msgspec.Raw(snapshot.state),
        }
        await respond_json(send, body, headers=about)
