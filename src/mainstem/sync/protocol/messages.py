"""Messages of the sync protocol: decoding the ones that arrive, and encoding the ones that are sent.

Every message is first checked for its size, JSON, required fields and version, in this order. Its payload is decoded
later, and only if the state of the session allows the type.
"""

import re
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import SyncBadRequest, SyncError, SyncVersionUnsupported
from mainstem.json_errors import explain_json_error
from mainstem.sync.protocol.canonical import read_float
from mainstem.timestamps import format_time

VERSION = "1.0"


class Envelope(msgspec.Struct, frozen=True, gc=False):
    type: str
    payload: msgspec.Raw
    protocol_version: str
    msg_id: str | int | None = None


class ConnectPayload(msgspec.Struct, frozen=True, gc=False):
    client_id: str
    token: str = ""


class EventPayload(msgspec.Struct, frozen=True, gc=False):
    """One draft. `partition` is a legacy field: if present, it must name the same partition as `partitions`."""

    id: str
    event: msgspec.Raw
    partitions: list[str] | None = None
    partition: str | None = None


class SubmitEventsPayload(msgspec.Struct, frozen=True, gc=False):
    events: list[EventPayload]


class SyncPayload(msgspec.Struct, frozen=True, gc=False):
    partitions: list[str]
    since_committed_id: int
    limit: int | None = None
    subscription_partitions: list[str] | None = None


class DisconnectPayload(msgspec.Struct, frozen=True, gc=False):
    reason: str | None = None


class HeartbeatPayload(msgspec.Struct, frozen=True, gc=False):
    pass


PAYLOADS: dict[str, msgspec.json.Decoder[Any]] = {
    "connect": msgspec.json.Decoder(ConnectPayload),
    "submit_events": msgspec.json.Decoder(SubmitEventsPayload),
    "submit_event": msgspec.json.Decoder(EventPayload),
    "sync": msgspec.json.Decoder(SyncPayload),
    "heartbeat": msgspec.json.Decoder(HeartbeatPayload),
    "disconnect": msgspec.json.Decoder(DisconnectPayload),
}

REQUIRED = (("type", str, "a string"), ("payload", dict, "an object"), ("protocol_version", str, "a string"))

_envelope = msgspec.json.Decoder(Envelope)
_any_value = msgspec.json.Decoder(float_hook=read_float)


def parse_envelope(text: bytes) -> tuple[Envelope, str | None]:
    """Decode a message except for its payload. Also return the placeholder that replaces lone surrogates in it, if any.

    A valid message is parsed once. Only an invalid one is parsed again, to explain what is wrong with it.
    """
    placeholder: str | None = None
    if len(text) > limits.SYNC_MESSAGE_BYTES_MAX:
        raise OversizeMessage()
    try:
        if not text.isascii():
            text.decode("utf-8")
        envelope = _envelope.decode(text)
    except UnicodeDecodeError:
        raise SyncBadRequest("the message is not UTF-8") from None
    except RecursionError:
        raise SyncBadRequest("the message is nested too deeply") from None
    except (msgspec.DecodeError, ValueError):
        envelope, placeholder = _decode_with_placeholder(text)
    if bytes(envelope.payload)[:1] != b"{":
        raise _with_msg_id(envelope.msg_id, SyncBadRequest("payload must be an object"))
    if envelope.protocol_version != VERSION:
        raise _with_msg_id(envelope.msg_id, _unsupported())
    return envelope, placeholder


# Matches any escape; group 1 is a lone surrogate. The parser refuses a whole message with one; the protocol refuses
# only the item that holds it.
ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def _decode_with_placeholder(text: bytes) -> tuple[Envelope, str]:
    """Decode the message with each lone surrogate replaced by a placeholder: a code point that the message does not
    contain."""
    lowered = text.lower()
    for code in range(0xFDD0, 0xFDF0):  # noncharacters, which no text needs
        escape = b"\\u%x" % code
        if escape not in lowered and chr(code).encode() not in text:
            break
    else:
        raise _explain(text) from None
    replaced = ESCAPE.sub(lambda match: escape if match[1] else match[0], text)
    if replaced == text:
        raise _explain(text) from None
    try:
        return _envelope.decode(replaced), chr(code)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _explain(text) from None


class OversizeMessage(SyncBadRequest):
    """A message above the size limit: the only bad request that ends the connection."""

    closes = True

    def __init__(self) -> None:
        super().__init__(f"the message is larger than {limits.SYNC_MESSAGE_BYTES_MAX} bytes")


def _with_msg_id(msg_id: Any, error: SyncError) -> SyncError:
    """Set the id of the message that the error answers, if it could be read."""
    if isinstance(msg_id, str | int) and not isinstance(msg_id, bool):
        error.msg_id = msg_id
    return error


def _unsupported() -> SyncVersionUnsupported:
    return SyncVersionUnsupported(f"this server supports only protocol version {VERSION}", supported_versions=[VERSION])


def _explain(text: bytes) -> SyncError:
    """Return the error for a message that could not be decoded."""
    try:
        value = _any_value.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return SyncBadRequest("the message is not JSON")
    if not isinstance(value, dict):
        return SyncBadRequest("the message must be a JSON object")
    msg_id = value.get("msg_id")
    for field, kind, name in REQUIRED:
        if field not in value:
            return _with_msg_id(msg_id, SyncBadRequest(f"{field} is missing from the message"))
        if not isinstance(value[field], kind):
            return _with_msg_id(msg_id, SyncBadRequest(f"{field} must be {name}"))
    if value["protocol_version"] != VERSION:
        return _with_msg_id(msg_id, _unsupported())
    if msg_id is not None and (not isinstance(msg_id, str | int) or isinstance(msg_id, bool)):
        return SyncBadRequest("msg_id must be a string or an integer")
    return _with_msg_id(msg_id, SyncBadRequest("a field of the message is repeated with a value of the wrong type"))


def parse_payload(envelope: Envelope) -> Any:
    """Decode the payload of a known type. Raise `SyncBadRequest` if it is malformed."""
    try:
        return PAYLOADS[envelope.type].decode(envelope.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        fault = explain_json_error(error, "it")
        raise SyncBadRequest(f"the payload of {envelope.type} is malformed: {fault}") from None


# Outgoing messages. A direct reply echoes the `msg_id` of its request.


class Message(msgspec.Struct, frozen=True):
    type: str
    payload: Any
    msg_id: str | int | None
    timestamp: str
    protocol_version: str = VERSION


class MessageWithoutId(msgspec.Struct, frozen=True):
    type: str
    payload: Any
    timestamp: str
    protocol_version: str = VERSION


_encode = msgspec.json.Encoder().encode


def encode_message(type_: str, payload: Any, now_us: int, msg_id: str | int | None = None) -> bytes:
    time = format_time(now_us)
    return _encode(MessageWithoutId(type_, payload, time) if msg_id is None else Message(type_, payload, msg_id, time))


def encode_error(error: SyncError, now_us: int, msg_id: str | int | None = None) -> bytes:
    payload: dict[str, Any] = {"code": error.code, "message": error.detail}
    if error.facts:
        payload["details"] = error.facts
    return encode_message("error", payload, now_us, msg_id)


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """The data of an EVENT record: a broadcast without the fields that the commit adds. `event` is the exact text that
    the client sent."""

    id: str
    client_id: str
    partitions: tuple[str, ...]
    event: msgspec.Raw


class StoredPartitions(msgspec.Struct, frozen=True, gc=False):
    partitions: tuple[str, ...]


_partitions = msgspec.json.Decoder(StoredPartitions)
_stored = msgspec.json.Decoder(StoredEvent)


def encode_stored(event_id: str, client_id: str, partitions: tuple[str, ...], event: bytes) -> bytes:
    return _encode(StoredEvent(event_id, client_id, partitions, msgspec.Raw(event)))


def stored_partitions(data: bytes) -> tuple[str, ...]:
    return _partitions.decode(data).partitions


decode_stored = _stored.decode


def complete_event(data: bytes, committed_id: int, committed_at_us: int) -> bytes:
    """Add the committed id and time to a stored event: it becomes an item of a sync page or the payload of a
    broadcast."""
    return b'%b,"committed_id":%d,"status_updated_at":"%b"}' % (
        data[:-1],
        committed_id,
        format_time(committed_at_us).encode(),
    )


def encode_broadcast(data: bytes, committed_id: int, committed_at_us: int) -> bytes:
    return b'{"type":"event_broadcast","payload":%b,"msg_id":"evt-%d","timestamp":"%b","protocol_version":"%b"}' % (
        complete_event(data, committed_id, committed_at_us),
        committed_id,
        format_time(committed_at_us).encode(),
        VERSION.encode(),
    )


def frame_text(payload: bytes) -> bytes:
    """Return a WebSocket text frame. Frames from a server are not masked (RFC 6455), so all receivers can share one."""
    size = len(payload)
    if size < 126:
        return b"\x81%c%b" % (size, payload)
    if size < 65_536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), payload)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), payload)
