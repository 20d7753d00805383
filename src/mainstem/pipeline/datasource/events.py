"""Submits staged events over the sync protocol. Each event keeps its id, so the server recognises a repetition."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
from websockets.exceptions import InvalidStatus, WebSocketException

from mainstem import limits
from mainstem.client.sync_connection import SyncConnection
from mainstem.client.sync_protocol.errors import ServerRefused
from mainstem.client.sync_protocol.messages import (
    Connected,
    SubmitResult,
    SubmitResults,
    encode_connect,
    encode_submit,
)
from mainstem.client.sync_protocol.urls import endpoint_url
from mainstem.errors import BadRow, RequestRefused, ServerUnreachable
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.staging_directory import Frame
from mainstem.pipeline.http_client import describe_failure
from mainstem.streams.rules.offsets import Offset


def submit_events(options: WriteOptions, frames: Iterator[Frame], client_id: str) -> dict[str, str]:
    """Submit every frame and wait until its events are committed. Return the ends of some partitions."""
    in_flight: deque[Frame] = deque()
    reached: dict[str, str] = {}
    deadline_s = time.monotonic() + options.server.retry_s
    pause_s = limits.PIPELINE_BACKOFF_S
    while True:
        progress = _Progress()
        try:
            with _open(options, client_id) as connection:
                for frame in in_flight:
                    _send(connection, frame)
                _pump(options, connection, frames, in_flight, progress, reached)
                return reached
        except (OSError, WebSocketException, ServerRefused) as error:
            reason = _describe(error)
            if isinstance(error, ServerRefused):
                _check_temporary(error, options)
                reason = f"{error.code}: {error.message}"
                time.sleep(min(error.retry_after_s or 0.0, limits.PIPELINE_BACKOFF_S_MAX))
            if progress.made:
                deadline_s, pause_s = time.monotonic() + options.server.retry_s, limits.PIPELINE_BACKOFF_S
            if time.monotonic() + pause_s > deadline_s:
                raise ServerUnreachable(
                    f"{options.server.url}/v1/sync did not accept the events within {options.server.retry_s:g} s: "
                    f"{reason}"
                ) from None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, limits.PIPELINE_BACKOFF_S_MAX)


def _describe(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        return f"the server refused the connection with status {error.response.status_code}"
    return "the connection broke" if isinstance(error, WebSocketException) else describe_failure(error)


class _Progress:
    made = False


def _pump(
    options: WriteOptions,
    connection: SyncConnection,
    frames: Iterator[Frame],
    in_flight: deque[Frame],
    progress: _Progress,
    reached: dict[str, str],
) -> None:
    while True:
        while len(in_flight) < limits.SINK_SUBMITS_MAX and (frame := next(frames, None)) is not None:
            in_flight.append(frame)  # before it is sent, so that a failed send is repeated
            _send(connection, frame)
        if not in_flight:
            return
        results = connection.receive_reply(SubmitResults).results
        _check(results, options)
        _note_end(in_flight.popleft(), results, reached)
        progress.made = True


def _open(options: WriteOptions, client_id: str) -> SyncConnection:
    connection = SyncConnection(
        endpoint_url(options.server.url),
        timeout_s=limits.PIPELINE_WAIT_S_MAX,
        message_bytes_max=limits.SYNC_MESSAGE_BYTES_MAX,
        proxy=None,
        compression=None,
    )
    try:
        connection.send(encode_connect(options.server.read_token() or "", client_id))
        connection.receive_reply(Connected)
    except BaseException:
        connection.close()
        raise
    return connection


def _send(connection: SyncConnection, frame: Frame) -> None:
    connection.send(encode_submit(msgspec.Raw(frame.body)))


def _check_temporary(refusal: ServerRefused, options: WriteOptions) -> None:
    """Raise `RequestRefused` unless another attempt may succeed. A token file may hold a newer token by then."""
    if not (refusal.retryable or (refusal.code == "auth_failed" and options.server.token_file is not None)):
        text = f"{options.server.url}/v1/sync: {refusal.code}: {refusal.message}"
        raise RequestRefused(text, refusal=refusal.code) from None


def _note_end(frame: Frame, results: Sequence[SubmitResult], reached: dict[str, str]) -> None:
    """Record the last committed event of a frame as an offset of its first partition."""
    last = max(results, key=lambda result: result.committed_id or 0)
    if last.committed_id is None:
        return
    item = next(item for item in msgspec.json.decode(frame.body, type=list[_Item]) if item.id == last.id)
    partition = item.partitions[0]
    if partition in reached or len(reached) < limits.SINK_ENDS_KEPT:
        end = str(Offset(0, last.committed_id))
        reached[partition] = max(end, reached.get(partition, end))


class _Item(msgspec.Struct):
    id: str
    partitions: list[str]


def _check(results: Sequence[SubmitResult], options: WriteOptions) -> None:
    rejected = [result for result in results if result.status != "committed"]
    if rejected and not options.skip_rejected:
        first = rejected[0]
        details = "; ".join(f"{error.field}: {error.message}" for error in first.errors)
        raise BadRow(
            f"the server rejected event {first.id!r} ({first.reason}): {details}. Set skipRejected=true, or "
            "--skip-rejected of an import, to skip such events"
        )
