"""Staged events over the sync protocol. An event keeps its id, so what was committed before is recognised."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from mainstem import limits
from mainstem.errors import BadRow, RequestRefused, ServerUnreachable
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.stage import Frame
from mainstem.streams.rules.offsets import Offset

PASSING = frozenset({"rate_limited", "server_error"})


class _Interrupted(Exception):
    """The connection is of no use any more; another one may be."""


def submit_events(options: WriteOptions, frames: Iterator[Frame], client_id: str) -> dict[str, str]:
    """Submit every frame, and return when each of their events is committed: where some of the partitions ended."""
    under_way: deque[Frame] = deque()
    reached: dict[str, str] = {}
    deadline_s = time.monotonic() + options.endpoint.retry_s
    pause_s = limits.PIPELINE_BACKOFF_S
    while True:
        before = _Progress()
        try:
            with _open(options, client_id) as socket:
                for frame in under_way:
                    _send(socket, frame)
                _pump(options, socket, frames, under_way, before, reached)
                return reached
        except (OSError, WebSocketException, _Interrupted) as error:
            if before.made:
                deadline_s, pause_s = time.monotonic() + options.endpoint.retry_s, limits.PIPELINE_BACKOFF_S
            if time.monotonic() + pause_s > deadline_s:
                raise ServerUnreachable(f"{options.endpoint.url}/v1/sync: {type(error).__name__}: {error}") from None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, limits.PIPELINE_BACKOFF_S_MAX)


class _Progress:
    made = False


def _pump(
    options: WriteOptions,
    socket: ClientConnection,
    frames: Iterator[Frame],
    under_way: deque[Frame],
    progress: _Progress,
    reached: dict[str, str],
) -> None:
    while True:
        while len(under_way) < limits.SINK_SUBMITS_MAX and (frame := next(frames, None)) is not None:
            under_way.append(frame)  # before it is sent: if that fails, it is sent again
            _send(socket, frame)
        if not under_way:
            return
        results = _receive(socket, "submit_events_result", options)["results"]
        _check(results, options)
        _note_end(under_way.popleft(), results, reached)
        progress.made = True


def _open(options: WriteOptions, client_id: str) -> ClientConnection:
    parts = urlsplit(options.endpoint.url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    url = urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/v1/sync", "", ""))
    socket = connect(
        url,
        open_timeout=limits.PIPELINE_WAIT_S_MAX,
        max_size=limits.SYNC_MESSAGE_BYTES_MAX,
        proxy=None,
        compression=None,
    )
    try:
        token = options.endpoint.read_token() or ""
        hello = {"type": "connect", "protocol_version": "1.0", "payload": {"token": token, "client_id": client_id}}
        socket.send(msgspec.json.encode(hello).decode())
        _receive(socket, "connected", options)
    except BaseException:
        socket.close()
        raise
    return socket


def _send(socket: ClientConnection, frame: Frame) -> None:
    body = b'{"type":"submit_events","protocol_version":"1.0","payload":{"events":%b}}' % frame.body
    socket.send(body.decode())


def _receive(socket: ClientConnection, type_: str, options: WriteOptions) -> dict[str, Any]:
    while True:
        message = msgspec.json.decode(socket.recv(limits.PIPELINE_WAIT_S_MAX))
        payload: dict[str, Any] = message["payload"]
        if message["type"] == type_:
            return payload
        if message["type"] == "error":
            _judge(payload, options)


def _judge(fault: dict[str, Any], options: WriteOptions) -> None:
    code, text = fault.get("code"), f"{fault.get('code')}: {fault.get('message')}"
    if code in PASSING or (code == "auth_failed" and options.endpoint.token_file is not None):
        time.sleep(min(fault.get("details", {}).get("retry_after_ms", 0) / 1000, limits.PIPELINE_BACKOFF_S_MAX))
        raise _Interrupted(text)
    raise RequestRefused(f"{options.endpoint.url}/v1/sync: {text}", refusal=code)


def _note_end(frame: Frame, results: list[dict[str, Any]], reached: dict[str, str]) -> None:
    """The last committed event of a frame, under its first partition, as an offset of that partition."""
    last = max(results, key=lambda result: result.get("committed_id") or 0)
    if "committed_id" not in last:
        return
    item = next(item for item in msgspec.json.decode(frame.body, type=list[_Item]) if item.id == last["id"])
    partition = item.partitions[0]
    if partition in reached or len(reached) < limits.SINK_ENDS_KEPT:
        end = str(Offset(0, last["committed_id"]))
        reached[partition] = max(end, reached.get(partition, end))


class _Item(msgspec.Struct):
    id: str
    partitions: list[str]


def _check(results: list[dict[str, Any]], options: WriteOptions) -> None:
    rejected = [result for result in results if result["status"] != "committed"]
    if rejected and not options.skip_rejected:
        first = rejected[0]
        raise BadRow(
            f"event {first['id']!r} was rejected ({first.get('reason')}): {first.get('errors')}; "
            "skipRejected=true leaves such events out"
        )
