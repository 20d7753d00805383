"""Payloads of the server's replies: the server's description, the results of drafts, and errors."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError, SyncError, SyncRateLimited
from mainstem.sync.commands import Result
from mainstem.sync.protocol.messages import OversizeMessage, encode_message
from mainstem.timestamps import format_time

CAPABILITIES: Final = ["submit_events", "submit_event", "sync", "broadcast", "snapshots"]
CLOSE_CODES: Final = {"auth_failed": 1008, "server_error": 1011, "protocol_version_unsupported": 1002}


def describe_server(client_id: str, head: int, now_us: int, *, uuids_only: bool) -> dict[str, Any]:
    """Return the payload of `connected`."""
    return {
        "client_id": client_id,
        "server_time": format_time(now_us),
        "server_last_committed_id": head,
        "global_last_committed_id": head,
        "capabilities": CAPABILITIES,
        "event_ids": "uuid" if uuids_only else "any",
        "limits": {
            "message_bytes_max": limits.SYNC_MESSAGE_BYTES_MAX,
            "batch_items_max": limits.SYNC_BATCH_ITEMS_MAX,
            "drafts_max": limits.SYNC_DRAFTS_MAX,
            "messages_per_second_max": limits.SYNC_MESSAGES_S_MAX,
            "sync_limit_min": limits.SYNC_PAGE_MIN,
            "sync_limit_max": limits.SYNC_PAGE_MAX,
        },
    }


def encode_results(results: Sequence[Result], now_us: int, msg_id: str | int | None) -> bytes:
    body = {"results": [_describe_result(result) for result in results]}
    return encode_message("submit_events_result", body, now_us, msg_id)


def encode_single_result(result: Result, now_us: int, msg_id: str | int | None) -> bytes:
    """Encode the reply to `submit_event`, the older form of a submit."""
    type_ = "event_committed" if result.status == "committed" else "event_rejected"
    return encode_message(type_, _describe_result(result), now_us, msg_id)


class CommittedResult(msgspec.Struct, frozen=True, gc=False):
    id: str
    status: str
    committed_id: int | None
    status_updated_at: str


def _describe_result(result: Result) -> CommittedResult | dict[str, Any]:
    at = format_time(result.status_updated_at)
    if result.status == "committed":
        return CommittedResult(result.id, result.status, result.committed_id, at)
    return {
        "id": result.id,
        "status": "rejected",
        "reason": result.reason,
        "errors": [msgspec.structs.asdict(error) for error in result.errors],
        "status_updated_at": at,
    }


def translate(error: MainstemError, phase: str) -> SyncError:
    """Convert an error of the log into one of the protocol. A retryable error keeps the connection open."""
    if error.retryable:
        return SyncRateLimited(error.detail, retry_after_ms=limits.RETRY_AFTER_S * 1000)
    return SyncError(error.detail, phase=phase)


def close_code(error: SyncError) -> int:
    return 1009 if isinstance(error, OversizeMessage) else CLOSE_CODES.get(error.code, 1008)
