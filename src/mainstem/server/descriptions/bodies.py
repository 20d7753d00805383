"""The JSON bodies of the HTTP API as schemas: requests from the structs that parse them, replies from the structs here.

The handlers write most replies as plain dicts. The structs here name every field; tests compare them with the replies
of a real server, and an unknown or missing field fails.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from mainstem import limits
from mainstem.log.records import Extent
from mainstem.server.descriptions.headers import OFFSET
from mainstem.server.descriptions.model import JsonSchema, group_digits
from mainstem.server.endpoints.jobs import JobReport, ReportedRound
from mainstem.server.endpoints.partitions import PruneRequest, SnapshotRequest
from mainstem.server.endpoints.signed_urls import SignedUrlRequest
from mainstem.server.endpoints.stream_snapshots import StreamSnapshotRequest
from mainstem.server.log_api.cuts import Cut, Division
from mainstem.server.log_api.index import INDEXES
from mainstem.streams.reading.sets import SetEvent
from mainstem.streams.rules.sse import Control
from mainstem.streams.subscriptions.admin_http import RedeliverRequest
from mainstem.streams.subscriptions.core.model import Status
from mainstem.streams.subscriptions.core.wakes import LinkedStream
from mainstem.streams.subscriptions.http import (
    Ack,
    ClaimReply,
    ClaimRequest,
    StreamsRequest,
    SubscriptionRequest,
    WakeRequest,
    WebhookTarget,
)
from mainstem.streams.subscriptions.link_queries import ListedLink
from mainstem.streams.subscriptions.webhook_sender import WebhookBody, WebhookResult

OffsetText = Annotated[str, Meta(pattern=OFFSET["pattern"])]
Time = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T.*Z$", description="RFC 3339, in UTC.")]
Created = Annotated[Time, Meta(description="When it was created.")]
Whole = Annotated[int, Meta(ge=0)]


class Described(msgspec.Struct, forbid_unknown_fields=True):
    """A reply: all its fields are here."""


# Streams


class StreamEntry(Described):
    path: Annotated[str, Meta(description="The stream's path.")]
    content_type: Annotated[str, Meta(description="The stream's content type.")]
    next_offset: Annotated[OffsetText, Meta(description="The end of the stream.")]
    earliest_offset: Annotated[OffsetText, Meta(description="The offset of the first message that is kept.")]
    closed: Annotated[bool, Meta(description="Whether the stream is closed.")]
    created_at: Created
    ttl_seconds: Annotated[int | None, Meta(description="Seconds after the last use until the stream expires.")]
    expires_at: Annotated[str | None, Meta(description="The time at which the stream expires, as it was set.")]
    forked_from: Annotated[
        str | None, Meta(description="The path of the fork's source; null if the caller may not read that stream.")
    ]
    messages: Annotated[int, Meta(description="How many messages of its own the stream keeps.")]
    bytes: Annotated[
        int,
        Meta(description="The size of these messages in bytes. A fork does not count what it shares with its source."),
    ]


class StreamList(Described):
    streams: Annotated[list[StreamEntry], Meta(description="Streams in the order of their paths.")]
    next: Annotated[str | None, Meta(description="Send it as `after` for the next page; null on the last page.")]


class FoundOffset(Described):
    offset: Annotated[OffsetText, Meta(description="Where the append begins, or the end of the stream.")]
    committed_at: Annotated[Time | None, Meta(description="When it was committed; null at the end of the stream.")]


class StreamSnapshot(Described):
    stream: Annotated[str, Meta(description="The stream's path.")]
    committed_id: Annotated[Whole, Meta(description="The committed id up to which the snapshot goes.")]
    offset: Annotated[OffsetText, Meta(description="The offset of the first message that is not in the snapshot.")]
    created_at: Created
    state: Annotated[Any, Meta(description="Any JSON value, as it was sent.")]


# Partitions


class CommittedEvent(Described):
    id: Annotated[str, Meta(description="The event's id.")]
    client_id: Annotated[str, Meta(description="The client that submitted the event.")]
    partitions: Annotated[list[str], Meta(description="The partitions of the event, normalised.")]
    event: Annotated[dict[str, Any], Meta(description="The event, as it was submitted.")]
    committed_id: Annotated[Whole, Meta(description="The position of the event in the log.")]
    status_updated_at: Annotated[Time, Meta(description="The time of the commit.")]


class PartitionSnapshot(Described):
    partition: Annotated[str, Meta(description="The partition's name.")]
    committed_id: Annotated[Whole, Meta(description="The committed id up to which the snapshot goes.")]
    created_at: Created
    floor: Annotated[Whole, Meta(description="The committed id up to which the partition's history may be gone.")]
    state: Annotated[Any, Meta(description="Any JSON value, as it was sent.")]


class PartitionEntry(Described):
    partition: Annotated[str, Meta(description="The partition's name.")]
    last_committed_id: Annotated[
        Whole,
        Meta(description="The end of the partition: the committed id of its newest event, or its floor if higher."),
    ]
    floor: Annotated[Whole, Meta(description="The committed id up to which the partition's history may be gone.")]
    snapshot_committed_id: Annotated[
        int | None, Meta(description="The committed id up to which the snapshot goes; null without one.")
    ]


class PartitionList(Described):
    partitions: Annotated[list[PartitionEntry], Meta(description="Partitions in the order of their names.")]
    next: Annotated[str | None, Meta(description="Send it as `after` for the next page; null on the last page.")]


# Callers


class StreamRights(Described):
    read: Annotated[list[str], Meta(description="Globs of the streams that the caller may read.")]
    write: Annotated[list[str], Meta(description="Globs of the streams that the caller may write.")]


class Caller(Described):
    authenticates: Annotated[bool, Meta(description="Whether the server asks for tokens.")]
    client_id: Annotated[str | None, Meta(description="The client that the token names.")]
    subject: Annotated[str | None, Meta(description="The subject that the token names.")]
    admin: Annotated[bool, Meta(description="Whether the caller may do everything. Always true without tokens.")]
    metrics: Annotated[bool, Meta(description="Whether the caller may read the server's metrics.")]
    sign_urls: Annotated[bool, Meta(description="Whether the caller may sign URLs of what it may read.")]
    streams: Annotated[StreamRights, Meta(description="The streams that the token allows.")]
    partitions: Annotated[list[str], Meta(description="The partitions that the token allows.")]
    partition_prefixes: Annotated[
        list[str], Meta(description="The caller may also use the partitions that begin with one of these.")
    ]
    expires_at: Annotated[Time | None, Meta(description="When the token expires; null if it never does.")]
    arrow: Annotated[bool, Meta(description="Whether the server can send the log as Arrow.")]
    version: Annotated[str, Meta(description="The version of the server.")]


class SignedUrl(Described):
    url: Annotated[str, Meta(description="The URL with its signature.")]
    expires_at: Annotated[Time, Meta(description="When it expires: at the latest with the token of the caller.")]


class SessionEntry(Described):
    session: Annotated[int, Meta(ge=1, description="The number of the session. A restart begins again with 1.")]
    client_id: Annotated[str | None, Meta(description="The client; null until it has sent `connect`.")]
    subject: Annotated[str | None, Meta(description="The subject that its token names.")]
    address: Annotated[
        str | None, Meta(description="The client's address; behind a trusted proxy, the one that the proxy reports.")
    ]
    connected_at: Annotated[Time, Meta(description="When the connection was opened.")]
    admin: Annotated[bool, Meta(description="Whether the client may use every partition.")]
    allowed_partitions: Annotated[
        list[str],
        Meta(description=f"Partitions that the token allows, {limits.LISTED_SESSION_NAMES} at most."),
    ]
    allowed_partition_prefixes: Annotated[
        list[str],
        Meta(description=f"Prefixes of partitions that the token allows, {limits.LISTED_SESSION_NAMES} at most."),
    ]
    expires_at: Annotated[Time | None, Meta(description="When the token expires; null if it never does.")]
    subscriptions: Annotated[
        list[str],
        Meta(description=f"Partitions that the client subscribes to, {limits.LISTED_SESSION_NAMES} at most."),
    ]
    subscription_count: Annotated[Whole, Meta(description="How many partitions the client subscribes to.")]
    submitted: Annotated[Whole, Meta(description="How many events the client has submitted.")]
    received: Annotated[Whole, Meta(description="How many broadcasts the server has sent to the client.")]
    outbox_bytes: Annotated[Whole, Meta(description="The size of messages that wait until the client reads.")]


class SessionList(Described):
    sessions: Annotated[list[SessionEntry], Meta(description="Sessions of this node, the oldest first.")]
    truncated: Annotated[bool, Meta(description="Whether more sessions follow.")]


# Subscriptions


SubscriptionStatus = Annotated[
    Status,
    Meta(description="`failed` while a webhook waits for its next attempt; `paused` while an operator has paused it."),
]


class DeliveryError(Described):
    at: Annotated[Time, Meta(description="When the delivery failed.")]
    reason: Annotated[str, Meta(description="Why, in a few words. For people; it may change.")]


class SubscriptionEntry(Described):
    subscription_id: Annotated[str, Meta(description="The subscription's id.")]
    type: Annotated[Literal["webhook", "pull-wake"], Meta(description="How the server wakes the worker.")]
    pattern: Annotated[str | None, Meta(description="The glob of linked paths.")]
    webhook_url: Annotated[str | None, Meta(description="The URL that the server calls.")]
    wake_stream: Annotated[str | None, Meta(description="The stream to which the server appends wakes.")]
    created_at: Created
    owner: Annotated[str | None, Meta(description="The name of the token that created it; null without tokens.")]
    status: SubscriptionStatus
    paused: Annotated[bool, Meta(description="Whether it is paused: no wake is sent until it is resumed.")]
    generation: Annotated[Whole, Meta(description="How many wakes there have been.")]
    wake_id: Annotated[str | None, Meta(description="The id of the current wake; null if there is none.")]
    holder: Annotated[str | None, Meta(description="The worker that has claimed the current wake.")]
    lease_until: Annotated[Time | None, Meta(description="When the lease of the current wake ends.")]
    attempts: Annotated[Whole, Meta(description="How many calls for the current wake have failed in a row.")]
    next_attempt_at: Annotated[Time | None, Meta(description="When the webhook is called again after a failure.")]
    last_error: Annotated[
        DeliveryError | None, Meta(description="Why the latest wake could not be delivered; null after a success.")
    ]
    unacknowledged_since: Annotated[
        Time | None, Meta(description="When the first wake after the latest acknowledgement began.")
    ]


class StreamCursorEntry(Described):
    path: Annotated[str, Meta(description="The stream's path.")]
    type: Annotated[
        Literal["glob", "explicit"], Meta(description="Whether the pattern or an explicit link names the stream.")
    ]
    acked_offset: Annotated[OffsetText, Meta(description="The offset up to which the stream was acknowledged.")]
    next_offset: Annotated[OffsetText | None, Meta(description="The end of the stream; null if it does not exist.")]
    lag_bytes: Annotated[Whole, Meta(description="How many bytes follow `acked_offset` and are still kept.")]


class SubscriptionDetails(SubscriptionEntry):
    streams: Annotated[
        list[StreamCursorEntry],
        Meta(
            description=f"The linked streams in the order of their paths, {group_digits(limits.LISTED_CURSORS_MAX)} at"
            " most."
        ),
    ]
    streams_truncated: Annotated[
        bool,
        Meta(description="Whether there are, or may be, more. Streams with new data are left out last."),
    ]


class SubscriptionList(Described):
    subscriptions: Annotated[list[SubscriptionEntry], Meta(description="Subscriptions in the order of their ids.")]
    next: Annotated[str | None, Meta(description="Send it as `after` for the next page; null on the last page.")]


class WebhookSigning(Described):
    alg: Annotated[Literal["ed25519"], Meta(description="The algorithm of the signatures.")]
    kid: Annotated[str, Meta(description="The id of the key that signs webhooks now.")]
    jwks_url: Annotated[str, Meta(description="Where the public keys are.")]


class WebhookDescription(Described):
    url: Annotated[str, Meta(description="The URL that the server calls.")]
    signing: Annotated[WebhookSigning, Meta(description="How to verify the calls.")]


class SubscriptionDescription(Described):
    id: Annotated[str, Meta(description="The subscription's id.")]
    subscription_id: Annotated[str, Meta(description="The same id.")]
    type: Annotated[Literal["webhook", "pull-wake"], Meta(description="How the server wakes the worker.")]
    pattern: Annotated[str | None, Meta(description="The glob of linked paths.")]
    streams: Annotated[
        list[ListedLink], Meta(description=f"The linked streams, {group_digits(limits.LISTED_LINKS_MAX)} at most.")
    ]
    webhook: Annotated[WebhookDescription | None, Meta(description="Null for `pull-wake`.")]
    wake_stream: Annotated[str | None, Meta(description="The stream to which the server appends wakes.")]
    lease_ttl_ms: Annotated[int, Meta(description="How long a worker may hold a wake, in milliseconds.")]
    created_at: Created
    status: SubscriptionStatus
    description: Annotated[str | None, Meta(description="Free text.")]
    generation: Annotated[Whole, Meta(description="How many wakes there have been.")]


class AckReply(Described):
    ok: Annotated[Literal[True], Meta(description="Always true.")]
    next_wake: Annotated[bool, Meta(description="Whether more work is pending, so that another wake follows.")]


class Jwk(Described):
    kty: Annotated[Literal["OKP"], Meta(description="The type of the key.")]
    crv: Annotated[Literal["Ed25519"], Meta(description="The curve.")]
    kid: Annotated[str, Meta(description="The id of the key, as in `Webhook-Signature`.")]
    use: Annotated[Literal["sig"], Meta(description="`sig`: the key verifies signatures.")]
    alg: Annotated[Literal["EdDSA"], Meta(description="The algorithm.")]
    x: Annotated[str, Meta(description="The public key, in base64url.")]


class JwkSet(Described):
    keys: Annotated[list[Jwk], Meta(description="The public keys; the one that signs now comes first.")]


class RotatedKey(Described):
    kid: Annotated[str, Meta(description="The id of the new signing key.")]


# Jobs


class JobList(Described):
    jobs: Annotated[list[ReportedRound], Meta(description="The last round of each job, in the order of their names.")]


# The log


class LogEpoch(Described):
    after: Annotated[Whole, Meta(description="The committed id after which the epoch begins.")]
    name: Annotated[str, Meta(description="The name of the epoch.")]


class LogHead(Described):
    log: Annotated[
        str | None,
        Meta(
            description="The id of the log, which it keeps for ever; null until a store of an older version, which "
            "refuses writes, has been started again."
        ),
    ]
    epoch: Annotated[
        str | None, Meta(description="The name of the current epoch. A log that is restored begins a new one.")
    ]
    epochs: Annotated[
        list[LogEpoch],
        Meta(
            description="The epochs of the log, oldest first. A record belongs to the last one that begins before it."
        ),
    ]
    head: Annotated[Whole, Meta(description="The highest committed id.")]
    lowest: Annotated[Whole, Meta(description="The lowest committed id that is kept; `head` + 1 if there is none.")]
    pruned: Annotated[
        Whole,
        Meta(
            description="The highest committed id that retention or pruning has erased of what the filters select; 0 "
            "if it has erased nothing. Without filters it includes what was erased of streams that are deleted now."
        ),
    ]
    now: Annotated[str, Meta(description="The time of the server's clock, which sets the times of commits.")]
    appends: Annotated[int | msgspec.UnsetType, Meta(description="Appends to streams. Only with `counts=true`.")] = (
        msgspec.UNSET
    )
    events: Annotated[int | msgspec.UnsetType, Meta(description="Events of partitions. Only with `counts=true`.")] = (
        msgspec.UNSET
    )
    rows: Annotated[int | msgspec.UnsetType, Meta(description="Messages in both. Only with `counts=true`.")] = (
        msgspec.UNSET
    )
    bytes: Annotated[int | msgspec.UnsetType, Meta(description="Bytes in both. Only with `counts=true`.")] = (
        msgspec.UNSET
    )


class LogId(Described):
    committed_id: Annotated[
        Whole, Meta(description="The committed id of the record; the highest one + 1 if there is no such record.")
    ]
    committed_at: Annotated[str | None, Meta(description="When it was committed; null if there is no such record.")]
    age_s: Annotated[float | None, Meta(description="How many seconds ago that was, by the clock of the server.")]


class LogControl(Described):
    next: Annotated[Whole, Meta(description="Everything up to this committed id was sent.")]
    head: Annotated[Whole, Meta(description="The highest committed id.")]
    upToDate: Annotated[bool, Meta(description="Whether the reader has everything so far.")]
    position: Annotated[
        int | msgspec.UnsetType, Meta(description="Within a large record: how many of its messages were sent.")
    ] = msgspec.UNSET


_NULLABLE_TEXT: Final[JsonSchema] = {"type": ["string", "null"]}

LOG_COLUMNS: Final[dict[str, JsonSchema]] = {
    "committed_id": {
        "type": "integer",
        "description": "The position in the log; all messages of one append share it.",
    },
    "position": {"type": "integer", "description": "The number of the message within its append, from 0."},
    "kind": {"enum": ["stream", "event"], "description": "Whether the row is a stream's message or an event."},
    "stream": {**_NULLABLE_TEXT, "description": "The stream's path; null for events."},
    "offset": {
        **_NULLABLE_TEXT,
        "description": "Where the message begins: a read of the stream from this offset returns it first. Null for"
        " events.",
    },
    "producer_id": {**_NULLABLE_TEXT, "description": "The idempotent producer, if there was one."},
    "partitions": {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": "The partitions of an event; null for streams.",
    },
    "id": {**_NULLABLE_TEXT, "description": "The id of an event; null for streams."},
    "client_id": {**_NULLABLE_TEXT, "description": "The client that submitted an event; null for streams."},
    "content_type": {
        "type": "string",
        "description": "The stream's content type; `application/json` for events.",
    },
    "data": {"type": "string", "description": "The message, byte for byte as it was sent."},
    "committed_at": {"type": "string", "format": "date-time", "description": "The time of the commit."},
}
"""The columns of `/v1/log`, by name, as JSON."""


class LogRow(msgspec.Struct):
    """Stands for `LOG_ROW` in the tables of operations."""


class IndexRow(msgspec.Struct):
    """Stands for `INDEX_ROW` in the tables of operations."""


LOG_ROW: Final[JsonSchema] = {
    "title": "LogRow",
    "type": "object",
    "description": "One row of the log. `columns` selects the fields.",
    "properties": {
        **LOG_COLUMNS,
        "data_base64": {"type": "string", "description": "In place of `data`, if the message is not UTF-8."},
    },
    "additionalProperties": False,
}

_INDEX_TYPES: Final = {"string": "string", "int64": "integer", "bool": "boolean"}

INDEX_COLUMNS: Final[dict[str, dict[str, str]]] = {
    "events": {
        "id": "The event's id.",
        "committed_id": "The committed id of the event.",
        "digest": "SHA-256 of the event's canonical content, in hex.",
    },
    "streams": {
        "path": "The stream's path.",
        "topic": "The number of the stream within the log.",
        "read_seq": "The first half of the stream's offsets. It differs between streams that had the same path.",
        "content_type": "The stream's content type.",
        "begins": "The position of the first of the stream's own data that is kept.",
        "earliest": "The position of the first data that can be read, including what a fork has inherited.",
        "tail": "The position after the last byte.",
        "messages": "How many messages of its own the stream keeps.",
        "last_id": "The committed id of the newest data.",
        "trimmed": "Whether the beginning of the stream was discarded.",
        "forks": "How many streams are forks of this one.",
        "closed": "Whether the stream is closed.",
        "deleted": "Whether the stream was deleted.",
        "soft_deleted": "Whether the stream was deleted while forks still read its data.",
    },
    "producers": {
        "path": "The stream's path.",
        "id": "The producer's id.",
        "topic": "The number of the stream within the log.",
        "epoch": "The producer's epoch.",
        "last_seq": "The producer's last sequence number.",
    },
}


def describe_index(of: str) -> JsonSchema:
    """Return the schema of one row of an index."""
    columns = {
        column.name: {"type": _INDEX_TYPES[column.type], "description": INDEX_COLUMNS[of][column.name]}
        for column in INDEXES[of].columns
    }
    return {
        "title": f"Index row of {of}",
        "type": "object",
        "properties": columns,
        "required": list(columns),
        "additionalProperties": False,
    }


INDEX_ROW: Final[JsonSchema] = {
    "title": "IndexRow",
    "description": "One row of an index; which one depends on `of`.",
    "anyOf": [describe_index(of) for of in INDEXES],
}

WRITTEN: Final[dict[type, JsonSchema]] = {LogRow: LOG_ROW, IndexRow: INDEX_ROW}
"""Schemas of what no struct describes, by the types that stand for them."""

# Health


class Live(Described):
    status: Annotated[Literal["ok"], Meta(description="Always `ok`.")]


class Ready(Described):
    status: Annotated[Literal["ready"], Meta(description="Always `ready`; otherwise the reply is an error.")]
    head: Annotated[Whole, Meta(description="The highest committed id.")]


# Errors


class Problem(msgspec.Struct):
    """An error, as RFC 9457 describes it. Some errors carry facts in further fields."""

    type: Literal["about:blank"]
    title: Annotated[str, Meta(description="What went wrong, in general. For people; it may change.")]
    status: Annotated[int, Meta(description="The HTTP status.")]
    code: Annotated[str, Meta(description="The stable name of the error: decide by it.")]
    detail: Annotated[str, Meta(description="What went wrong with this request. For people; it may change.")]
    retryable: Annotated[bool, Meta(description="Whether the same request can succeed later.")]
    hint: Annotated[str | msgspec.UnsetType, Meta(description="What to do about it. For people; it may change.")] = (
        msgspec.UNSET
    )
    request_id: Annotated[str | msgspec.UnsetType, Meta(description="The id of the request, as in `X-Request-Id`.")] = (
        msgspec.UNSET
    )
    error: Annotated[
        dict[str, Any] | msgspec.UnsetType,
        Meta(description="Of subscription APIs: `code` and `message`, as the public protocol defines them."),
    ] = msgspec.UNSET


# What the structs of the code mean, field by field

_LEASE_MS: Final = next(f.default for f in msgspec.structs.fields(SubscriptionRequest) if f.name == "lease_ttl_ms")
_STREAM_PATH: Final = "The stream's path."
_ROUND: Final[dict[str, str | JsonSchema]] = {
    "job": "The kind of job; `query` is a streaming query of a Spark program.",
    "name": {
        "description": f"The name of the job: 1 to {limits.JOB_NAME_CHARS_MAX} of `a-z`, `0-9`, `.`, `_` and `-`.",
        "pattern": f"^[a-z0-9][a-z0-9._-]{{0,{limits.JOB_NAME_CHARS_MAX - 1}}}$",
    },
    "round": "The number of the round.",
    "started_at": {"description": "When the round began: RFC 3339, with a time zone.", "format": "date-time"},
    "duration_s": "How long the round took, in seconds.",
    "rows": "How many rows the round has processed.",
    "bytes": "How many bytes the round has processed or written, if the job counts them.",
    "position": "The committed id that the job has reached.",
    "lag": "By how many ids the log has grown since then.",
    "faults": "How many faults the round has found.",
    "error": "Why the round failed; null if it did not.",
    "details": "What else the job has to say about the round.",
}
_LINK_TYPE: Final[JsonSchema] = {
    "enum": ["glob", "explicit"],
    "description": "Whether the pattern or an explicit link names the stream.",
}

FIELDS: Final[dict[type, dict[str, str | JsonSchema]]] = {
    SignedUrlRequest: {
        "url": "The URL of a stream or partition, or its path; its query is kept. One of these three is needed.",
        "stream": "The path of a stream.",
        "partition": "The name of a partition.",
        "expires_in_s": f"After how many seconds it expires: {limits.SIGNED_URL_S} by default.",
    },
    SnapshotRequest: {
        "committed_id": {"description": "The committed id up to which the snapshot goes.", "minimum": 0},
        "state": "Any JSON value. The server returns it byte for byte.",
    },
    StreamSnapshotRequest: {
        "committed_id": {"description": "The committed id up to which the snapshot goes.", "minimum": 0},
        "offset": "The offset of the first message that is not in the snapshot.",
        "state": "Any JSON value. The server returns it byte for byte.",
    },
    PruneRequest: {
        "floors": "For each partition, the committed id up to which to erase its events.",
        "streams": "For each stream path, the offset before which to discard whole appends.",
    },
    JobReport: _ROUND
    | {
        "round": "The number of the round; without it, one more than that of the round before.",
        "position": "The committed id that the job has reached; without it, that of the round before.",
        "lag": "By how many ids the log has grown since then; without it, the server computes it.",
    },
    ReportedRound: _ROUND
    | {"reported_at": {"description": "When the server received the report.", "format": "date-time"}},
    WebhookTarget: {
        "url": {
            "description": "An https URL at a public address.",
            "format": "uri",
            "maxLength": limits.WEBHOOK_URL_BYTES_MAX,
        }
    },
    SubscriptionRequest: {
        "type": "How the server wakes the worker: by calling a webhook, or by appending to a stream.",
        "pattern": f"A glob of paths, up to {group_digits(limits.STREAM_PATH_BYTES_MAX)} bytes: at most"
        f" {limits.GLOB_SEGMENTS_MAX} segments, {limits.GLOB_ANY_MAX} of them `**`,"
        f" with at most {limits.GLOB_STARS_MAX} stars in the others.",
        "streams": {
            "description": f"Paths to link explicitly, {group_digits(limits.SUBSCRIPTION_STREAMS_MAX)} at most.",
            "maxItems": limits.SUBSCRIPTION_STREAMS_MAX,
        },
        "webhook": "Where to call. Required for `webhook`.",
        "wake_stream": "The stream to which the server appends wakes. Required for `pull-wake`.",
        "lease_ttl_ms": {
            "description": f"How long a worker may hold a wake, in milliseconds: {group_digits(limits.LEASE_MS_MIN)} to"
            f" {group_digits(limits.LEASE_MS_MAX)}; {group_digits(_LEASE_MS)} by default.",
            "minimum": limits.LEASE_MS_MIN,
            "maximum": limits.LEASE_MS_MAX,
        },
        "description": "Free text.",
    },
    StreamsRequest: {
        "streams": {"description": "Paths to link explicitly.", "maxItems": limits.SUBSCRIPTION_STREAMS_MAX}
    },
    ClaimRequest: {
        "worker": {
            "description": "The name of the worker.",
            "minLength": 1,
            "maxLength": limits.SUBSCRIPTION_ID_BYTES_MAX,
        }
    },
    Ack: {"stream": _STREAM_PATH, "offset": "The offset up to which the worker has processed the stream."},
    WakeRequest: {
        "wake_id": "The id of the wake, from the claim or the webhook call.",
        "generation": "The generation, from the same place.",
        "acks": "How far the worker has processed each stream.",
        "done": "Whether the worker has finished with this wake.",
    },
    RedeliverRequest: {
        "stream": "The path of a linked stream whose acknowledged offset to move back first. Only with `offset`.",
        "offset": "Where to deliver this stream from again: an offset that was acknowledged, or `-1` for the"
        " beginning of what the stream keeps.",
    },
    ClaimReply: {
        "wake_id": "The id of the wake.",
        "generation": "The generation of the wake. A higher one fences it.",
        "token": "The bearer token for `ack` and `release`.",
        "streams": {
            "description": "The streams with new data.",
            "maxItems": limits.WAKE_STREAMS_MAX,
        },
        "lease_ttl_ms": "How long the worker may hold the wake without an acknowledgement, in milliseconds.",
    },
    LinkedStream: {
        "path": _STREAM_PATH,
        "link_type": _LINK_TYPE,
        "acked_offset": "The offset up to which the stream was acknowledged.",
        "tail_offset": "The end of the stream.",
        "has_pending": "Whether the stream has data after `acked_offset`.",
    },
    WebhookBody: {
        "subscription_id": "The subscription's id.",
        "wake_id": "The id of the wake.",
        "generation": "The generation of the wake. A higher one fences it.",
        "streams": {"description": "The streams with new data.", "maxItems": limits.WAKE_STREAMS_MAX},
        "callback_url": "Where to acknowledge progress.",
        "callback_token": "The bearer token for that URL.",
    },
    WebhookResult: {"done": "Whether the receiver has processed everything that the call named."},
    ListedLink: {
        "path": _STREAM_PATH,
        "link_type": _LINK_TYPE,
        "acked_offset": "The offset up to which the stream was acknowledged.",
    },
    Extent: {
        "until": "The last committed id of the range.",
        "rows": "How many messages the range holds.",
        "bytes": "How many bytes the range holds.",
    },
    Division: {
        "rows": "How many messages the range holds.",
        "bytes": "How many bytes the range holds.",
        "exact": "Whether all records were measured. In a range of more than 256 000 ids, a sample is.",
        "cuts": "Where to divide the range, in order.",
    },
    Cut: {
        "after": "The part ends with this committed id ...",
        "position": "... and so many messages of the record after it.",
    },
    SetEvent: {
        "stream": _STREAM_PATH,
        "nextOffset": "The offset after this data.",
        "encoding": {"enum": ["json", "text", "base64", None], "description": "What `data` is; absent without data."},
        "data": "An array of messages in JSON mode; otherwise a string of text or of base64.",
        "upToDate": "Whether the reader has everything of this stream so far.",
        "closed": "Whether the stream is closed and ends here.",
        "deleted": "Whether the stream was deleted. Nothing more of it follows.",
        "gone": "Whether retention has overtaken the reader. Nothing more of this stream follows.",
    },
    Control: {
        "streamNextOffset": "The offset after the data sent so far.",
        "streamCursor": "Send it as `cursor` with the next live read.",
        "upToDate": "Whether the reader has everything so far.",
        "streamClosed": "Whether the stream is closed and ends here.",
    },
}
"""Descriptions and bounds of the structs that handlers use themselves, by the names of the fields on the wire."""


def describe_fields(schema: JsonSchema, fields: dict[str, str | JsonSchema]) -> JsonSchema:
    """Return a struct's schema with a description of every field. Raises KeyError for a field without one."""
    properties = {
        name: {**about, **({"description": words} if isinstance(words := fields[name], str) else words)}
        for name, about in schema["properties"].items()
    }
    return {**{name: value for name, value in schema.items() if name != "description"}, "properties": properties}
