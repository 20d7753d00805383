"""Requests: decoded payloads, after every check that does not need the session."""

from typing import assert_never

import msgspec

from mainstem import limits
from mainstem.errors import SyncBadRequest
from mainstem.sync.protocol.cycles import clamp_limit
from mainstem.sync.protocol.drafts import check_names, check_shape
from mainstem.sync.protocol.messages import (
    ConnectPayload,
    DisconnectPayload,
    Envelope,
    EventPayload,
    HeartbeatPayload,
    SubmitEventsPayload,
    SyncPayload,
    parse_payload,
)
from mainstem.sync.protocol.partitions import normalise_filter


class SubmitRequest(msgspec.Struct, frozen=True, gc=False):
    drafts: list[EventPayload]
    size: int
    """The size of the payload in bytes."""
    placeholder: str | None
    """The character that replaces lone surrogates in the payload, if it had any."""
    single: bool
    """Whether the request is `submit_event`, the older form with its own replies."""


class SyncRequest(msgspec.Struct, frozen=True, gc=False):
    partitions: tuple[str, ...]
    subscriptions: tuple[str, ...] | None
    """None if the request leaves the subscriptions unchanged."""
    since: int
    limit: int


Request = SubmitRequest | SyncRequest | HeartbeatPayload | ConnectPayload | DisconnectPayload


def decode_request(envelope: Envelope, placeholder: str | None) -> Request:
    """Decode the payload of a message. Raise `SyncBadRequest` or `ValidationFailed` if it is malformed."""
    payload = parse_payload(envelope)
    match payload:
        case SubmitEventsPayload():
            check_shape(payload.events)
            return SubmitRequest(payload.events, len(envelope.payload), placeholder, single=False)
        case EventPayload():
            check_shape([payload])
            return SubmitRequest([payload], len(envelope.payload), placeholder, single=True)
        case SyncPayload():
            return _read_sync(payload, placeholder)
        case ConnectPayload():
            if not payload.client_id or len(payload.client_id.encode()) > limits.CLIENT_ID_BYTES_MAX:
                raise SyncBadRequest(f"client_id must be 1 to {limits.CLIENT_ID_BYTES_MAX} bytes of UTF-8")
            return payload
        case HeartbeatPayload() | DisconnectPayload():
            return payload
        case _:
            assert_never(payload)


def _read_sync(payload: SyncPayload, placeholder: str | None) -> SyncRequest:
    if payload.since_committed_id < 0:
        raise SyncBadRequest("since_committed_id must be 0 or greater")
    wanted = payload.subscription_partitions
    check_names([*payload.partitions, *(wanted or ())], placeholder)
    return SyncRequest(
        normalise_filter(payload.partitions),
        None if wanted is None else normalise_filter(wanted),
        payload.since_committed_id,
        clamp_limit(payload.limit),
    )
