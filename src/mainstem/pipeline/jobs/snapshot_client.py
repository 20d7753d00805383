"""Fetches the snapshot of a target from the server, and stores the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, Reply
from mainstem.pipeline.jobs.targets import PARTITION, Target
from mainstem.streams.rules.offsets import Offset

MISSING = frozenset({404, 410})
REFUSED = frozenset({400, 404, 409, 410, 413})


_array = msgspec.json.Decoder(list[msgspec.Raw])


class TargetGone(Exception):
    """The stream was deleted or created again after its rows were written, so they need no snapshot."""


class Superseded(Exception):
    """Another client has stored a newer snapshot meanwhile."""


class SnapshotRefused(Exception):
    """The snapshot cannot be stored; the message says why."""


class StoredSnapshot(NamedTuple):
    """The snapshot of a target on the server, and what is left of its history."""

    state: bytes | None
    """None if there is no snapshot."""
    committed_id: int
    position: int
    """For a stream, the position at which the snapshot ends."""
    floor: int
    """What was pruned: the ids of a partition up to this one, or the positions of a stream below it."""
    truncated: bool
    """Whether messages were pruned that no snapshot covers."""


class _Partition(msgspec.Struct):
    committed_id: int
    floor: int
    state: msgspec.Raw


class _Stream(msgspec.Struct):
    committed_id: int
    offset: str
    state: msgspec.Raw


def snapshot_url(target: Target) -> str:
    if target.kind == PARTITION:
        return f"/v1/snapshot/{quote(target.name, safe='')}"
    return f"/v1/stream-snapshot/{quote(target.name, safe='/')}"


class SnapshotClient:
    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def fetch(self, target: Target, *, whole: bool = True) -> StoredSnapshot:
        """Return the stored snapshot. Without `whole`, its state is not loaded: it is empty, but not None."""
        reply = self._client.request("GET" if whole else "HEAD", snapshot_url(target), allowed=MISSING)
        return self._read_partition(reply) if target.kind == PARTITION else self._read_stream(reply, target)

    def _read_partition(self, reply: Reply) -> StoredSnapshot:
        floor = int(reply.headers["Partition-Floor"])
        if reply.status == 404:
            return StoredSnapshot(None, 0, 0, floor, floor > 0)
        if not reply.body:
            committed_id = int(reply.headers["Snapshot-Committed-Id"])
            return StoredSnapshot(b"", committed_id, 0, floor, floor > committed_id)
        found = msgspec.json.decode(reply.body, type=_Partition)
        return StoredSnapshot(bytes(found.state), found.committed_id, 0, found.floor, found.floor > found.committed_id)

    def _read_stream(self, reply: Reply, target: Target) -> StoredSnapshot:
        if "Stream-Earliest-Offset" not in reply.headers:
            raise TargetGone
        earliest = Offset.parse(reply.headers["Stream-Earliest-Offset"])
        if earliest.read_seq != target.read_seq:
            raise TargetGone
        kept = earliest.position
        if reply.status == 404:
            return StoredSnapshot(None, 0, 0, kept, kept > 0)
        if not reply.body:
            position = Offset.parse(reply.headers["Snapshot-Offset"]).position
            return StoredSnapshot(b"", int(reply.headers["Snapshot-Committed-Id"]), position, kept, kept > position)
        found = msgspec.json.decode(reply.body, type=_Stream)
        position = Offset.parse(found.offset).position
        return StoredSnapshot(bytes(found.state), found.committed_id, position, kept, kept > position)

    def put(self, target: Target, committed_id: int, end: int, state: bytes) -> None:
        if target.kind == PARTITION:
            body = b'{"committed_id":%d,"state":%b}' % (committed_id, state)
        else:
            offset = str(Offset(target.read_seq, end)).encode()
            body = b'{"committed_id":%d,"offset":"%b","state":%b}' % (committed_id, offset, state)
        if len(body) > limits.SNAPSHOT_BYTES_MAX:
            raise SnapshotRefused(
                f"its state takes {len(body)} bytes; the limit of a snapshot is {limits.SNAPSHOT_BYTES_MAX}"
            )
        reply = self._client.request("PUT", snapshot_url(target), body=body, allowed=REFUSED)
        if reply.status < 400:
            return
        stored = self.fetch(target, whole=False)
        if stored.state is not None and stored.committed_id >= committed_id:
            raise Superseded
        raise SnapshotRefused(f"the server refused it: {reply.status} {reply.problem.get('detail', '')}")

    def read_inherited(self, target: Target, start: int, until: int) -> Iterator[bytes]:
        """Yield the messages between two positions that a fork has from its source. They are not rows of the fork."""
        at = start
        while at < until:
            query = [("offset", str(Offset(target.read_seq, at)))]
            reply = self._client.request(
                "GET", self._client.server.stream_url(target.name), query=query, allowed=MISSING
            )
            if reply.status in MISSING:
                raise TargetGone
            for message in _array.decode(reply.body):
                if at >= until:
                    return
                data = bytes(message)
                yield data
                at += len(data) + 1
