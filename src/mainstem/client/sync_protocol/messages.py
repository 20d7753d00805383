"""Messages of the sync protocol, as a client encodes them, and as it decodes and checks them."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from mainstem import limits
from mainstem.client.sync_protocol.errors import ProtocolFault
from mainstem.sync.protocol.messages import VERSION

CommittedId = Annotated[int, msgspec.Meta(ge=0, le=limits.INTEGER_MAX)]


# Received


class Envelope(msgspec.Struct, frozen=True):
    type: str
    payload: msgspec.Raw
    protocol_version: str
    msg_id: str | int | None = None


class ServerLimits(msgspec.Struct, frozen=True):
    message_bytes_max: int = limits.SYNC_MESSAGE_BYTES_MAX
    batch_items_max: int = limits.SYNC_BATCH_ITEMS_MAX
    drafts_max: int = limits.SYNC_DRAFTS_MAX


class Connected(msgspec.Struct, frozen=True):
    server_last_committed_id: CommittedId | None = None
    limits: ServerLimits = ServerLimits()


class FieldFault(msgspec.Struct, frozen=True, gc=False):
    """An error in one field of a draft."""

    field: str = ""
    message: str = ""


class SubmitResult(msgspec.Struct, frozen=True):
    id: str
    status: str
    committed_id: CommittedId | None = None
    reason: str | None = None
    errors: tuple[FieldFault, ...] = ()
    status_updated_at: str | None = None


class SubmitResults(msgspec.Struct, frozen=True):
    results: tuple[SubmitResult, ...]


class CommittedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its committed id: an item of a page, or a broadcast."""

    committed_id: CommittedId
    id: str
    client_id: str = ""
    partitions: tuple[str, ...]
    event: msgspec.Raw
    status_updated_at: str = ""


class PartitionSnapshot(msgspec.Struct, frozen=True):
    """The state of a partition up to a committed id, in place of pruned events."""

    partition: str
    committed_id: CommittedId
    state: msgspec.Raw


class Page(msgspec.Struct, frozen=True):
    events: tuple[CommittedEvent, ...]
    next_since_committed_id: CommittedId
    sync_to_committed_id: CommittedId
    has_more: bool
    snapshots: tuple[PartitionSnapshot, ...] = ()
    history_truncated: tuple[str, ...] = ()


class ErrorPayload(msgspec.Struct, frozen=True):
    code: str
    message: str = ""
    details: dict[str, Any] = {}


PAYLOADS: dict[str, msgspec.json.Decoder[Any]] = {
    "connected": msgspec.json.Decoder(Connected),
    "submit_events_result": msgspec.json.Decoder(SubmitResults),
    "event_broadcast": msgspec.json.Decoder(CommittedEvent),
    "sync_response": msgspec.json.Decoder(Page),
    "error": msgspec.json.Decoder(ErrorPayload),
}

_envelope = msgspec.json.Decoder(Envelope)


def decode_message(text: bytes) -> tuple[Envelope, Any]:
    """Return the envelope and the payload of a message; the payload is None for a type that clients do not use."""
    try:
        if not text.isascii():
            text.decode("utf-8")
        envelope = _envelope.decode(text)
        if envelope.protocol_version != VERSION:
            version = envelope.protocol_version[:16]
            raise ProtocolFault(f"the server speaks protocol version {version!r}, and this client {VERSION}")
        decoder = PAYLOADS.get(envelope.type)
        return envelope, None if decoder is None else decoder.decode(envelope.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolFault("the server sent something that is not a message of the sync protocol") from error


# Sent

_encode = msgspec.json.Encoder().encode


def encode_message(type_: str, payload: Any, msg_id: str | None = None) -> bytes:
    message: dict[str, Any] = {"type": type_, "payload": payload, "protocol_version": VERSION}
    if msg_id is not None:
        message["msg_id"] = msg_id
    return _encode(message)


def encode_connect(token: str, client_id: str, msg_id: str | None = None) -> bytes:
    return encode_message("connect", {"token": token, "client_id": client_id}, msg_id)


def encode_sync(
    partitions: Sequence[str],
    since: int,
    limit: int,
    msg_id: str | None = None,
    *,
    subscribe_to: Sequence[str] | None = None,
) -> bytes:
    """Return a request for the page after a committed id and, with `subscribe_to`, for broadcasts from now on."""
    payload: dict[str, Any] = {"partitions": partitions, "since_committed_id": since, "limit": limit}
    if subscribe_to is not None:
        payload["subscription_partitions"] = subscribe_to
    return encode_message("sync", payload, msg_id)


def encode_submit(drafts: Sequence[Any] | msgspec.Raw, msg_id: str | None = None) -> bytes:
    """Return a submit message. Drafts are objects, or JSON as `msgspec.Raw`: each of them, or the whole array."""
    return encode_message("submit_events", {"events": drafts}, msg_id)


def encode_draft(id_: str, partitions: Sequence[str], event: bytes) -> bytes:
    return _encode({"id": id_, "partitions": partitions, "event": msgspec.Raw(event)})


SUBMIT_OVERHEAD_BYTES = len(encode_submit([], "9" * 20))
"""The size of a submit message without its drafts."""
