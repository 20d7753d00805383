"""The operations below the stream prefix: streams, and the subscriptions and keys under the reserved segment."""

from typing import Any, Final

from mainstem import errors, limits
from mainstem.server.descriptions import bodies, headers
from mainstem.server.descriptions.model import (
    ANY,
    BYTES,
    EVENT_STREAM,
    JSON,
    TEXT,
    Access,
    Body,
    In,
    JsonSchema,
    Operation,
    Parameter,
    Path,
    Reply,
    choice,
    group_digits,
    integer,
)
from mainstem.streams.rules.paths import RESERVED
from mainstem.streams.rules.sse import Control
from mainstem.streams.subscriptions.http import (
    ClaimReply,
    ClaimRequest,
    StreamsRequest,
    SubscriptionRequest,
    WakeRequest,
)

MESSAGES: Final[JsonSchema] = {"type": "array", "description": "The messages, in order."}
DELETED: Final[JsonSchema] = {"type": "object", "maxProperties": 0}
STREAM_EVENTS: Final[dict[str, Any]] = {"data": TEXT, "control": Control, "deleted": DELETED}

STREAM_PATH: Final = Parameter(
    "path",
    f"The stream's path, percent-encoded: 1 to {group_digits(limits.STREAM_PATH_BYTES_MAX)} bytes of UTF-8 without"
    " control characters and without the segments `.`, `..` and the empty one. It may contain slashes; `%2F` is a slash"
    " too.",
    TEXT,
    In.PATH,
    required=True,
)
SUBSCRIPTION_ID: Final = Parameter(
    "id",
    f"The subscription's id: 1 to {limits.SUBSCRIPTION_ID_BYTES_MAX} bytes without a slash.",
    {"type": "string", "minLength": 1, "maxLength": limits.SUBSCRIPTION_ID_BYTES_MAX},
    In.PATH,
    required=True,
)
OFFSET: Final = Parameter(
    "offset",
    "Where to begin: `-1` is the beginning, `now` the end; otherwise an offset that the server sent. The default is"
    " `-1`. Required with `live`.",
)
LIVE: Final = Parameter(
    "live",
    "`long-poll` waits for new data, `sse` sends an event stream. `false` is the default.",
    choice("long-poll", "sse", "false"),
)
CURSOR: Final = Parameter("cursor", "The last `Stream-Cursor` that the client received. Only with `live`.")
SIGNATURE: Final = Parameter(
    "signature", "The signature of a signed URL, in place of a token. Ignored by a server without tokens."
)
TAIL: Final = Parameter(
    "tail",
    f"Begin at the last N messages, 1 to {group_digits(limits.TAIL_MESSAGES_MAX)}; in a stream of bytes, at the"
    " last N appends. Excludes `offset` and `live`.",
    integer(1, limits.TAIL_MESSAGES_MAX),
)

_BODY_ERRORS: Final = (
    errors.BadPath,
    errors.BadHeader,
    errors.RepeatedHeader,
    errors.BadJson,
    errors.BodyCutShort,
    errors.BodyTooLarge,
    errors.MessageTooLarge,
    errors.TooManyMessages,
)
_FIND_ERRORS: Final = (errors.BadPath, errors.RepeatedHeader, errors.StreamNotFound, errors.StreamGone)

STREAM: Final = Path(
    "/{path}",
    {
        "put": Operation(
            "createStream",
            "Streams",
            "Create a stream",
            "Creates a stream, or confirms that a stream with this configuration exists. The body, if there is one,"
            " becomes the first content; it is ignored if the stream exists. In JSON mode, `[]` is no content.",
            (
                STREAM_PATH,
                headers.CREATED_TYPE,
                headers.STREAM_TTL,
                headers.STREAM_EXPIRES_AT,
                headers.CREATED_CLOSED,
                headers.STREAM_RETENTION,
                headers.FORKED_FROM,
                headers.FORK_OFFSET,
                headers.FORK_SUB_OFFSET,
                headers.FORWARDED_PROTO,
                headers.FORWARDED_HOST,
            ),
            Body("The first content.", {JSON: {}, ANY: BYTES}, required=False),
            (
                Reply(201, "The stream was created.", ("Stream-Next-Offset", "Stream-Closed", "Location")),
                Reply(200, "The stream exists with this configuration.", ("Stream-Next-Offset", "Stream-Closed")),
            ),
            (
                *_BODY_ERRORS,
                errors.BadOffset,
                errors.StreamNotFound,
                errors.OffsetGone,
                errors.StreamExists,
                errors.ContentTypeMismatch,
                errors.SourceDeleted,
            ),
            writes=True,
        ),
        "post": Operation(
            "appendToStream",
            "Streams",
            "Append to a stream, or close it",
            "An empty body is allowed only with `Stream-Closed: true`. In JSON mode, an array is a batch of messages.",
            (
                STREAM_PATH,
                headers.APPENDED_TYPE,
                headers.APPENDED_CLOSED,
                headers.PRODUCER_ID,
                headers.PRODUCER_EPOCH,
                headers.PRODUCER_SEQ,
                headers.STREAM_SEQ,
                headers.IF_MATCH,
            ),
            Body("The data to append.", {JSON: {}, ANY: BYTES}, required=False),
            (
                Reply(
                    204,
                    "The append is durable. With producer headers: it was stored before, or the request only closed the"
                    " stream.",
                    ("Stream-Next-Offset", "Stream-Closed", "Producer-Epoch", "Producer-Seq"),
                ),
                Reply(
                    200,
                    "With producer headers: the append is durable, and was not stored before.",
                    ("Stream-Next-Offset", "Stream-Closed", "Producer-Epoch", "Producer-Seq"),
                ),
            ),
            (
                *_BODY_ERRORS,
                errors.EmptyBody,
                errors.EmptyArray,
                errors.MissingContentType,
                errors.BadOffset,
                errors.BadEpochStart,
                errors.StaleEpoch,
                errors.StreamNotFound,
                errors.StreamGone,
                errors.StreamClosed,
                errors.ContentTypeMismatch,
                errors.ProducerGap,
                errors.SequenceRegression,
                errors.TailMoved,
            ),
            writes=True,
        ),
        "get": Operation(
            "readStream",
            "Streams",
            "Read a stream",
            "Returns one page. Continue from `Stream-Next-Offset` until a page has `Stream-Up-To-Date`. Unknown query"
            " parameters are ignored.",
            (
                STREAM_PATH,
                OFFSET,
                LIVE,
                CURSOR,
                TAIL,
                SIGNATURE,
                headers.IF_NONE_MATCH,
                headers.ACCEPT_ENCODING,
                headers.LAST_EVENT_ID,
            ),
            None,
            (
                Reply(
                    200,
                    "A page of data, empty at the end of the stream; with `live=sse`, an event stream.",
                    (
                        "Stream-Next-Offset",
                        "Stream-Up-To-Date",
                        "Stream-Closed",
                        "Stream-Cursor",
                        "ETag",
                        "Content-Encoding",
                        "Content-Disposition",
                        "Stream-SSE-Data-Encoding",
                        "X-Accel-Buffering",
                        "Stream-Earliest-Offset",
                    ),
                    {JSON: MESSAGES, EVENT_STREAM: TEXT, ANY: BYTES},
                    events=STREAM_EVENTS,
                ),
                Reply(
                    204,
                    "Long-poll: nothing was appended in time, or the stream is closed and the client has all of it.",
                    ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "Stream-Cursor"),
                ),
                Reply(
                    304,
                    "The client has this page.",
                    ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "ETag", "Stream-Earliest-Offset"),
                ),
            ),
            (
                *_FIND_ERRORS,
                errors.BadOffset,
                errors.BadQuery,
                errors.OffsetGone,
                errors.TooManyReaders,
                errors.ShareExceeded,
            ),
        ),
        "head": Operation(
            "describeStream",
            "Streams",
            "Describe a stream",
            "Returns the stream's properties as headers. It does not count as a use for the TTL.",
            (STREAM_PATH, SIGNATURE),
            None,
            (
                Reply(
                    200,
                    "The stream exists. `Content-Type` is the stream's.",
                    (
                        "Stream-Next-Offset",
                        "Stream-Closed",
                        "Stream-TTL",
                        "Stream-Expires-At",
                        "Stream-Retention",
                        "Stream-Earliest-Offset",
                    ),
                ),
            ),
            _FIND_ERRORS,
        ),
        "delete": Operation(
            "deleteStream",
            "Streams",
            "Delete a stream",
            "From now on the stream is 404; while forks read its data, it is 410. Event streams of its readers end with"
            " `event: deleted`.",
            (STREAM_PATH,),
            None,
            (Reply(204, "The stream was deleted."),),
            _FIND_ERRORS,
            writes=True,
        ),
    },
)

_SUBSCRIPTION_ERRORS: Final = (errors.RepeatedHeader, errors.InvalidSubscription, errors.SubscriptionNotFound)
_CONTROL_BODY: Final = f"Up to {limits.CONTROL_BODY_BYTES_MAX // limits.MIB} MiB; its content type is not checked."
_WAKE_ERRORS: Final = (
    *_SUBSCRIPTION_ERRORS,
    errors.TokenInvalid,
    errors.Fenced,
    errors.BodyTooLarge,
)


def _acknowledge(name: str, whose: str) -> Operation:
    return Operation(
        f"{name}Subscription",
        "Subscriptions",
        f"Acknowledge the progress of a {whose}",
        "Moves the cursors of the streams in `acks` and extends the lease. `done` ends the wake.",
        (SUBSCRIPTION_ID, headers.WAKE_TOKEN),
        Body(_CONTROL_BODY, {JSON: WakeRequest}),
        (Reply(200, "The acknowledgement is durable.", (), {JSON: bodies.AckReply}),),
        (*_WAKE_ERRORS, errors.InvalidOffset),
        access=Access.WAKE,
        writes=True,
    )


CONTROL: Final = (
    Path(
        f"/{RESERVED}/subscriptions/{{id}}",
        {
            "put": Operation(
                "createSubscription",
                "Subscriptions",
                "Create a subscription",
                "Creates a subscription, or confirms that one with this configuration exists.",
                (SUBSCRIPTION_ID, headers.FORWARDED_PROTO, headers.FORWARDED_HOST),
                Body(_CONTROL_BODY, {JSON: SubscriptionRequest}),
                (
                    Reply(201, "The subscription was created.", (), {JSON: bodies.SubscriptionDescription}),
                    Reply(
                        200,
                        "The subscription exists with this configuration.",
                        (),
                        {JSON: bodies.SubscriptionDescription},
                    ),
                ),
                (
                    errors.RepeatedHeader,
                    errors.InvalidSubscription,
                    errors.WebhookUrlRejected,
                    errors.SubscriptionExists,
                    errors.BodyTooLarge,
                    errors.ShareExceeded,
                ),
                writes=True,
            ),
            "get": Operation(
                "getSubscription",
                "Subscriptions",
                "Retrieve a subscription",
                "",
                (SUBSCRIPTION_ID,),
                None,
                (Reply(200, "The subscription.", (), {JSON: bodies.SubscriptionDescription}),),
                _SUBSCRIPTION_ERRORS,
            ),
            "delete": Operation(
                "deleteSubscription",
                "Subscriptions",
                "Delete a subscription",
                "",
                (SUBSCRIPTION_ID,),
                None,
                (Reply(204, "The subscription was deleted."),),
                _SUBSCRIPTION_ERRORS,
                writes=True,
            ),
        },
    ),
    Path(
        f"/{RESERVED}/subscriptions/{{id}}/streams",
        {
            "post": Operation(
                "linkStreams",
                "Subscriptions",
                "Link streams to a subscription",
                "",
                (SUBSCRIPTION_ID,),
                Body(_CONTROL_BODY, {JSON: StreamsRequest}),
                (Reply(204, "The streams are linked."),),
                (*_SUBSCRIPTION_ERRORS, errors.BodyTooLarge),
                writes=True,
            )
        },
    ),
    Path(
        f"/{RESERVED}/subscriptions/{{id}}/streams/{{path}}",
        {
            "delete": Operation(
                "unlinkStream",
                "Subscriptions",
                "Unlink a stream from a subscription",
                "",
                (SUBSCRIPTION_ID, STREAM_PATH),
                None,
                (Reply(204, "The stream is not linked explicitly."),),
                (*_SUBSCRIPTION_ERRORS, errors.BadPath),
                writes=True,
            )
        },
    ),
    Path(
        f"/{RESERVED}/subscriptions/{{id}}/claim",
        {
            "post": Operation(
                "claimSubscription",
                "Subscriptions",
                "Claim the pending work of a pull-wake subscription",
                "The worker holds the lease until it acknowledges with `done`, releases it, or the lease expires.",
                (SUBSCRIPTION_ID,),
                Body(_CONTROL_BODY, {JSON: ClaimRequest}),
                (Reply(200, "The claim.", (), {JSON: ClaimReply}),),
                (
                    *_SUBSCRIPTION_ERRORS,
                    errors.AlreadyClaimed,
                    errors.NoPendingWork,
                    errors.SubscriptionPaused,
                    errors.BodyTooLarge,
                ),
                writes=True,
            )
        },
    ),
    Path(f"/{RESERVED}/subscriptions/{{id}}/ack", {"post": _acknowledge("ack", "pull-wake worker")}),
    Path(f"/{RESERVED}/subscriptions/{{id}}/callback", {"post": _acknowledge("callback", "webhook")}),
    Path(
        f"/{RESERVED}/subscriptions/{{id}}/release",
        {
            "post": Operation(
                "releaseSubscription",
                "Subscriptions",
                "Release a wake",
                "Ends the wake without an acknowledgement. Its work stays pending.",
                (SUBSCRIPTION_ID, headers.WAKE_TOKEN),
                Body(_CONTROL_BODY, {JSON: WakeRequest}),
                (Reply(204, "The wake was released."),),
                _WAKE_ERRORS,
                access=Access.WAKE,
                writes=True,
            )
        },
    ),
    Path(
        f"/{RESERVED}/jwks.json",
        {
            "get": Operation(
                "getSigningKeys",
                "Subscriptions",
                "Retrieve the public keys that verify webhooks",
                "",
                (),
                None,
                (Reply(200, "The keys, as a JWK Set.", (), {"application/jwk-set+json": bodies.JwkSet}),),
                (errors.RepeatedHeader,),
                access=Access.PUBLIC,
            ),
            "head": Operation(
                "describeSigningKeys",
                "Subscriptions",
                "Retrieve the headers of the key set",
                "",
                (),
                None,
                (Reply(200, "The keys exist."),),
                (errors.RepeatedHeader,),
                access=Access.PUBLIC,
            ),
        },
    ),
    Path(
        f"/{RESERVED}/keys/rotate",
        {
            "post": Operation(
                "rotateSigningKey",
                "Subscriptions",
                "Create a new key to sign webhooks",
                "The old key stays in the key set for a day.",
                (),
                None,
                (Reply(200, "The new key signs from now on.", (), {JSON: bodies.RotatedKey}),),
                (errors.RepeatedHeader,),
                access=Access.ADMIN,
                writes=True,
            )
        },
    ),
)
