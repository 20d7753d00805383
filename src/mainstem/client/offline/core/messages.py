"""Messages of the sync protocol from a client's side: what is said, and what is heard and checked."""

from typing import Annotated, Any

import msgspec

from mainstem import limits
from mainstem.client.offline.core.errors import ProtocolFault
from mainstem.client.offline.core.records import Committed, Draft, FieldFault, Snapshot

VERSION = "1.0"

Place = Annotated[int, msgspec.Meta(ge=0, le=limits.INTEGER_MAX)]


class Heard(msgspec.Struct, frozen=True):
    type: str
    payload: msgspec.Raw
    protocol_version: str
    msg_id: str | int | None = None


class ServerLimits(msgspec.Struct, frozen=True):
    message_bytes_max: int = limits.SYNC_MESSAGE_BYTES_MAX
    batch_items_max: int = limits.SYNC_BATCH_ITEMS_MAX
    drafts_max: int = limits.SYNC_DRAFTS_MAX


class Connected(msgspec.Struct, frozen=True):
    server_last_committed_id: Place | None = None
    limits: ServerLimits = ServerLimits()


class Result(msgspec.Struct, frozen=True):
    id: str
    status: str
    committed_id: Place | None = None
    reason: str = ""
    errors: tuple[FieldFault, ...] = ()
    status_updated_at: str = ""


class Results(msgspec.Struct, frozen=True):
    results: tuple[Result, ...]


class HeardEvent(msgspec.Struct, frozen=True):
    id: str
    partitions: tuple[str, ...]
    committed_id: Place
    event: msgspec.Raw
    client_id: str = ""
    status_updated_at: str = ""

    def checked(self) -> Committed:
        event = bytes(self.event)
        try:
            _object.decode(event)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ProtocolFault(f"the event at {self.committed_id} cannot be read: {error}") from None
        if self.committed_id < 1 or not self.id or not self.partitions:
            raise ProtocolFault(f"the event at {self.committed_id} is not as it should be")
        return Committed(self.committed_id, self.id, self.client_id, self.partitions, event, self.status_updated_at)


class HeardSnapshot(msgspec.Struct, frozen=True):
    partition: str
    committed_id: Place
    state: msgspec.Raw

    def checked(self) -> Snapshot:
        return Snapshot(self.partition, self.committed_id, bytes(self.state))


class Page(msgspec.Struct, frozen=True):
    events: tuple[HeardEvent, ...]
    next_since_committed_id: Place
    sync_to_committed_id: Place
    has_more: bool
    snapshots: tuple[HeardSnapshot, ...] = ()
    history_truncated: tuple[str, ...] = ()


class Complaint(msgspec.Struct, frozen=True):
    code: str
    message: str = ""
    details: dict[str, Any] = {}


_heard = msgspec.json.Decoder(Heard)
_object = msgspec.json.Decoder(dict[str, Any])
PAYLOADS: dict[str, msgspec.json.Decoder[Any]] = {
    "connected": msgspec.json.Decoder(Connected),
    "submit_events_result": msgspec.json.Decoder(Results),
    "event_broadcast": msgspec.json.Decoder(HeardEvent),
    "sync_response": msgspec.json.Decoder(Page),
    "error": msgspec.json.Decoder(Complaint),
}


def hear(text: bytes) -> tuple[Heard, Any]:
    """The envelope and its payload; the payload is None for a type that this client has no use for."""
    try:
        if not text.isascii():
            text.decode("utf-8")
        heard = _heard.decode(text)
        if heard.protocol_version != VERSION:
            raise ProtocolFault(f"a message of protocol version {heard.protocol_version[:16]!r}, not {VERSION}")
        decoder = PAYLOADS.get(heard.type)
        return heard, None if decoder is None else decoder.decode(heard.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolFault(f"a message of the server cannot be read: {error}") from None


_encode = msgspec.json.Encoder().encode


def say(type_: str, payload: Any, msg_id: str | None = None) -> bytes:
    message: dict[str, Any] = {"type": type_, "payload": payload, "protocol_version": VERSION}
    if msg_id is not None:
        message["msg_id"] = msg_id
    return _encode(message)


SUBMIT_BYTES = len(say("submit_events", {"events": []}, "9" * 20))


def describe_draft(draft: Draft) -> bytes:
    return _encode({"id": draft.id, "partitions": draft.partitions, "event": msgspec.Raw(draft.event)})


def say_drafts(items: list[bytes], msg_id: str) -> bytes:
    return say("submit_events", {"events": [msgspec.Raw(item) for item in items]}, msg_id)
