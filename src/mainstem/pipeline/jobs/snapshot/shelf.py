"""Where snapshots are kept: a worker takes the present one of a target from the server, and puts the next one back."""

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
    """The stream was deleted, or made anew, since its rows were written: there is nothing to keep for them."""


class Passed(Exception):
    """Somebody else has put a newer snapshot meanwhile."""


class Refused(Exception):
    """The snapshot cannot be kept; the reason is for people."""


class Present(NamedTuple):
    """What the server has of a target."""

    state: bytes | None
    """None: there is no snapshot."""
    committed_id: int
    position: int
    """Of a stream: where the snapshot ends."""
    given_up: int
    """What is not kept any more: ids up to this one of a partition, positions below it of a stream."""
    truncated: bool
    """Messages are gone that no snapshot stands for."""


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


class Shelf:
    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def fetch(self, target: Target, *, whole: bool = True) -> Present:
        """The present snapshot; without its state if that is not wanted (`state` is then empty, not None)."""
        reply = self._client.request("GET" if whole else "HEAD", snapshot_url(target), allowed=MISSING)
        return self._read_partition(reply) if target.kind == PARTITION else self._read_stream(reply, target)

    def _read_partition(self, reply: Reply) -> Present:
        floor = int(reply.headers["Partition-Floor"])
        if reply.status == 404:
            return Present(None, 0, 0, floor, floor > 0)
        if not reply.body:
            committed_id = int(reply.headers["Snapshot-Committed-Id"])
            return Present(b"", committed_id, 0, floor, floor > committed_id)
        found = msgspec.json.decode(reply.body, type=_Partition)
        return Present(bytes(found.state), found.committed_id, 0, found.floor, found.floor > found.committed_id)

    def _read_stream(self, reply: Reply, target: Target) -> Present:
        if "Stream-Earliest-Offset" not in reply.headers:
            raise TargetGone
        earliest = Offset.parse(reply.headers["Stream-Earliest-Offset"])
        if earliest.read_seq != target.life:
            raise TargetGone
        kept = earliest.position
        if reply.status == 404:
            return Present(None, 0, 0, kept, kept > 0)
        if not reply.body:
            position = Offset.parse(reply.headers["Snapshot-Offset"]).position
            return Present(b"", int(reply.headers["Snapshot-Committed-Id"]), position, kept, kept > position)
        found = msgspec.json.decode(reply.body, type=_Stream)
        position = Offset.parse(found.offset).position
        return Present(bytes(found.state), found.committed_id, position, kept, kept > position)

    def put(self, target: Target, committed_id: int, end: int, state: bytes) -> None:
        if target.kind == PARTITION:
            body = b'{"committed_id":%d,"state":%b}' % (committed_id, state)
        else:
            offset = str(Offset(target.life, end)).encode()
            body = b'{"committed_id":%d,"offset":"%b","state":%b}' % (committed_id, offset, state)
        if len(body) > limits.SNAPSHOT_BYTES_MAX:
            raise Refused(f"its state takes {len(body)} bytes; a snapshot has at most {limits.SNAPSHOT_BYTES_MAX}")
        reply = self._client.request("PUT", snapshot_url(target), body=body, allowed=REFUSED)
        if reply.status < 400:
            return
        present = self.fetch(target, whole=False)
        if present.state is not None and present.committed_id >= committed_id:
            raise Passed
        raise Refused(f"the server refused it: {reply.status} {reply.problem.get('detail', '')}")

    def inherited(self, target: Target, start: int, until: int) -> Iterator[bytes]:
        """The messages of a stream between two positions: what a fork has of its source is in no row of its own."""
        at = start
        while at < until:
            query = [("offset", str(Offset(target.life, at)))]
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
