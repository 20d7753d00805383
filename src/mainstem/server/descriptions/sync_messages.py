"""The messages of the sync protocol, by type: what each one means, and the struct of its payload.

The payloads of clients are the structs that the server decodes; those of the server are described here. Tests compare
both with the messages of a real connection.
"""

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mainstem import errors, limits
from mainstem.errors import SyncError
from mainstem.server.descriptions.bodies import CommittedEvent, Described, Time, Whole
from mainstem.server.descriptions.model import JsonSchema
from mainstem.sync.protocol.messages import (
    ConnectPayload,
    DisconnectPayload,
    EventPayload,
    HeartbeatPayload,
    SubmitEventsPayload,
    SyncPayload,
)

# From the server


class ServerLimits(Described):
    message_bytes_max: Annotated[int, Meta(description="The size of a message, in bytes.")]
    batch_items_max: Annotated[int, Meta(description="Drafts per `submit_events`.")]
    drafts_max: Annotated[int, Meta(description="Drafts of one client that may wait for their commit.")]
    messages_per_second_max: Annotated[int, Meta(description="Messages per connection and second.")]
    sync_limit_min: Annotated[int, Meta(description="The lowest `limit` of a `sync`.")]
    sync_limit_max: Annotated[int, Meta(description="The highest `limit` of a `sync`.")]


class ConnectedPayload(Described):
    client_id: Annotated[str, Meta(description="The `client_id` of the request.")]
    server_time: Annotated[Time, Meta(description="The server's clock.")]
    server_last_committed_id: Annotated[Whole, Meta(description="The highest committed id of the log.")]
    global_last_committed_id: Annotated[Whole, Meta(description="The same id.")]
    capabilities: Annotated[list[str], Meta(description="What the server supports.")]
    event_ids: Annotated[
        Literal["any", "uuid"], Meta(description="`uuid` if the ids of events must be UUIDs of version 4, 5, 7 or 8.")
    ]
    limits: ServerLimits


class FieldError(Described):
    field: Annotated[str, Meta(description="The path of the field, such as `event.payload.name`.")]
    message: Annotated[str, Meta(description="What is wrong with it. For people.")]


class CommittedResult(Described, tag_field="status", tag="committed"):
    id: Annotated[str, Meta(description="The id of the draft.")]
    committed_id: Annotated[Whole, Meta(description="The position of the event in the log.")]
    status_updated_at: Annotated[Time, Meta(description="The time of the first commit of this id.")]


class RejectedResult(Described, tag_field="status", tag="rejected"):
    id: Annotated[str, Meta(description="The id of the draft.")]
    reason: Annotated[Literal["validation_failed", "forbidden"], Meta(description="Why the draft was rejected.")]
    errors: Annotated[list[FieldError], Meta(description="What is wrong with the draft.")]
    status_updated_at: Annotated[Time, Meta(description="The time of the rejection.")]


class SubmitEventsResultPayload(Described):
    results: Annotated[
        list[CommittedResult | RejectedResult], Meta(description="One result per draft, in the order of the request.")
    ]


class SnapshotOfPartition(Described):
    partition: Annotated[str, Meta(description="The partition's name.")]
    committed_id: Annotated[Whole, Meta(description="The committed id up to which the snapshot goes.")]
    state: Annotated[Any, Meta(description="Any JSON value.")]


class SyncResponsePayload(Described):
    partitions: Annotated[list[str], Meta(description="The partitions of the request, normalised.")]
    effective_subscriptions: Annotated[list[str], Meta(description="The subscriptions in force, sorted.")]
    events: Annotated[list[CommittedEvent], Meta(description="The events of the page, in committed order.")]
    next_since_committed_id: Annotated[Whole, Meta(description="The cursor for the next page, or for the next cycle.")]
    sync_to_committed_id: Annotated[Whole, Meta(description="Where the cycle ends.")]
    has_more: Annotated[bool, Meta(description="Whether another page follows in this cycle.")]
    snapshots: Annotated[
        list[SnapshotOfPartition] | UnsetType,
        Meta(description="Snapshots of partitions whose history after the cursor is gone."),
    ] = UNSET
    history_truncated: Annotated[
        list[str] | UnsetType,
        Meta(description="Partitions whose history is gone and whose snapshot, if any, does not reach their floor."),
    ] = UNSET


class HeartbeatAckPayload(Described):
    pass


class ErrorPayload(Described):
    code: Annotated[str, Meta(description="The stable name of the error: decide by it.")]
    message: Annotated[str, Meta(description="What went wrong. For people; it may change.")]
    details: Annotated[dict[str, Any] | UnsetType, Meta(description="Further facts.")] = UNSET


SYNC_ERRORS: Final[tuple[type[SyncError], ...]] = (
    errors.SyncAuthFailed,
    errors.SyncVersionUnsupported,
    errors.SyncBadRequest,
    errors.SyncForbidden,
    errors.ValidationFailed,
    errors.SyncRateLimited,
    errors.SyncError,
)


class SyncMessage(NamedTuple):
    payload: type[msgspec.Struct]
    summary: str
    replies: tuple[str, ...] = ()
    """The types of the messages that answer it."""


FROM_CLIENT: Final[dict[str, SyncMessage]] = {
    "connect": SyncMessage(ConnectPayload, "Begin the session. It must be the first message.", ("connected",)),
    "submit_events": SyncMessage(
        SubmitEventsPayload, "Submit drafts. The server commits or rejects each one.", ("submit_events_result",)
    ),
    "submit_event": SyncMessage(EventPayload, "Submit one draft.", ("event_committed", "event_rejected")),
    "sync": SyncMessage(SyncPayload, "Ask for the page after a cursor, and set the subscriptions.", ("sync_response",)),
    "heartbeat": SyncMessage(HeartbeatPayload, "Ask for a sign of life.", ("heartbeat_ack",)),
    "disconnect": SyncMessage(DisconnectPayload, "End the session after the replies to all earlier messages."),
}

FROM_SERVER: Final[dict[str, SyncMessage]] = {
    "connected": SyncMessage(ConnectedPayload, "The session is active."),
    "submit_events_result": SyncMessage(SubmitEventsResultPayload, "The results of `submit_events`."),
    "event_committed": SyncMessage(CommittedResult, "The draft of `submit_event` was committed."),
    "event_rejected": SyncMessage(RejectedResult, "The draft of `submit_event` was rejected."),
    "event_broadcast": SyncMessage(CommittedEvent, "An event of a subscribed partition was committed."),
    "sync_response": SyncMessage(SyncResponsePayload, "A page of a sync cycle."),
    "heartbeat_ack": SyncMessage(HeartbeatAckPayload, "The sign of life."),
    "error": SyncMessage(ErrorPayload, "A message was refused. Some errors close the connection."),
}

_NAMES: Final[JsonSchema] = {"maxItems": limits.FILTER_PARTITIONS_MAX}

CLIENT_FIELDS: Final[dict[type, dict[str, str | JsonSchema]]] = {
    ConnectPayload: {
        "client_id": {
            "description": f"The client, 1 to {limits.CLIENT_ID_BYTES_MAX} bytes; the same as in the token.",
            "minLength": 1,
            "maxLength": limits.CLIENT_ID_BYTES_MAX,
        },
        "token": "The JWT; required if the server asks for tokens.",
    },
    EventPayload: {
        "id": {
            "description": f"The id of the draft, 1 to {limits.EVENT_ID_BYTES_MAX} bytes.",
            "minLength": 1,
            "maxLength": limits.EVENT_ID_BYTES_MAX,
        },
        "event": {"description": "The event.", "type": "object"},
        "partitions": f"The partitions of the event: 1 to {limits.EVENT_PARTITIONS_MAX} names. Required.",
        "partition": "Legacy: accepted if it says the same as `partitions`.",
    },
    SubmitEventsPayload: {
        "events": {"description": "The drafts.", "minItems": 1, "maxItems": limits.SYNC_BATCH_ITEMS_MAX}
    },
    SyncPayload: {
        "partitions": {"description": "The partitions to read.", **_NAMES},
        "since_committed_id": {"description": "Return events after this committed id.", "minimum": 0},
        "limit": f"Events per page, coerced into {limits.SYNC_PAGE_MIN} to {limits.SYNC_PAGE_MAX};"
        f" {limits.SYNC_PAGE} if absent.",
        "subscription_partitions": "The partitions whose events to broadcast from now on; `[]` for none. If absent,"
        " the subscriptions stay.",
    },
    HeartbeatPayload: {},
    DisconnectPayload: {"reason": "Not used."},
}
"""Descriptions and bounds of the payloads that clients send."""
