"""What each header means, in one table per direction. `mainstem.http.headers` has the rules for CORS and repetition."""

from typing import Final

from mainstem import errors, limits
from mainstem.errors import MainstemError
from mainstem.server.descriptions.model import FLAG, TEXT, In, JsonSchema, Parameter, choice, integer

OFFSET: Final[JsonSchema] = {"type": "string", "pattern": "^[0-9]{16}_[0-9]{16}$"}

# Requests


def _header(name: str, description: str, schema: JsonSchema = TEXT) -> Parameter:
    return Parameter(name, description, schema, In.HEADER)


COMMON_REQUEST_HEADERS: Final = (
    _header("Authorization", "`Bearer <token>`, on a server that asks for tokens."),
    _header(
        "Cookie",
        "`mainstem=<token>`, or over https `__Host-mainstem=<token>`: the token, if there is no `Authorization`. Other"
        " cookies are ignored.",
    ),
    _header("Host", "The name by which the client addresses the server. Without tokens, an unknown name is refused."),
    _header(
        "Origin",
        "Set by browsers. Without tokens, pages of other sites may read streams but not change anything. With tokens,"
        " only pages of the server's own origin and of those in `allow_origin` may read replies and use the cookie.",
    ),
    _header("Sec-Fetch-Site", "Set by browsers: which site a request with the cookie comes from."),
    _header(
        "Traceparent",
        "The trace that the request belongs to, as W3C Trace Context defines it. A malformed one is ignored.",
    ),
    _header("Tracestate", "Further data of this trace: up to 512 bytes, otherwise it is ignored."),
    _header("X-Forwarded-For", "From a trusted proxy: the address of the client."),
    _header("X-Request-Id", "An id of the client's choice for logs: up to 128 letters, digits and `._~:/+=@-`."),
)
"""Every request may carry them, so no operation lists them."""

CONTENT_TYPE: Final = _header("Content-Type", "The content type of the body.")
CREATED_TYPE: Final = _header(
    "Content-Type", "The stream's content type; `application/octet-stream` if absent. `application/json` is JSON mode."
)
APPENDED_TYPE: Final = _header(
    "Content-Type", "Required with a body. It must be the stream's content type; parameters are not compared."
)
STREAM_TTL: Final = _header(
    "Stream-TTL",
    "Seconds after the last use until the stream expires. Excludes `Stream-Expires-At`.",
    integer(0, limits.TTL_S_MAX),
)
STREAM_EXPIRES_AT: Final = _header(
    "Stream-Expires-At",
    "The time at which the stream expires, as RFC 3339.",
    {"type": "string", "format": "date-time"},
)
CREATED_CLOSED: Final = _header("Stream-Closed", "`true` creates the stream closed.", choice("true", "false"))
APPENDED_CLOSED: Final = _header(
    "Stream-Closed",
    "`true`, in any case, closes the stream after the append. Other values have no effect.",
    choice("true", "false"),
)
STREAM_RETENTION: Final = _header(
    "Stream-Retention",
    "How much history to keep: any of `max-age=<seconds>`, `max-bytes=<bytes>` and `max-messages=<count>`, separated by"
    " commas.",
)
FORKED_FROM: Final = _header("Stream-Forked-From", "The URL path of the stream to fork.")
FORK_OFFSET: Final = _header("Stream-Fork-Offset", "The offset at which to fork; the source's end if absent.")
FORK_SUB_OFFSET: Final = _header(
    "Stream-Fork-Sub-Offset",
    "How much of the append after `Stream-Fork-Offset` to include: messages in JSON mode, otherwise bytes.",
    integer(),
)
FORWARDED_PROTO: Final = _header(
    "X-Forwarded-Proto",
    "From a trusted proxy: the scheme that the client used, for URLs in the reply.",
    choice("http", "https"),
)
FORWARDED_HOST: Final = _header(
    "X-Forwarded-Host", "From a trusted proxy: the host that the client used, for URLs in the reply."
)
PRODUCER_ID: Final = _header(
    "Producer-Id", "The idempotent producer. Send `Producer-Epoch` and `Producer-Seq` with it, or none of the three."
)
PRODUCER_EPOCH: Final = _header(
    "Producer-Epoch", "The producer's epoch. A higher epoch fences the lower ones.", integer()
)
PRODUCER_SEQ: Final = _header(
    "Producer-Seq", "The number of this append within its epoch: 0, 1, 2 and so on.", integer()
)
STREAM_SEQ: Final = _header(
    "Stream-Seq", "Must be greater, compared as bytes, than the `Stream-Seq` of the last append that had one."
)
IF_MATCH: Final = _header("If-Match", "An offset. The append succeeds only if the stream still ends there.")
IF_NONE_MATCH: Final = _header(
    "If-None-Match", "ETags. If one of them matches, the reply is 304 without a body. Ignored with `live=sse`."
)
ACCEPT_ENCODING: Final = _header("Accept-Encoding", "`zstd`, `br`, `gzip` or `deflate`. Ignored with `live=sse`.")
LAST_EVENT_ID: Final = _header(
    "Last-Event-ID", "With `live=sse`: the id of the last event that the client received. It replaces `offset`."
)
ACCEPT_LOG: Final = _header(
    "Accept",
    "`application/x-ndjson`, the default, or `application/vnd.apache.arrow.stream`, which is faster.",
)
ACCEPT_METRICS: Final = _header(
    "Accept", "`text/plain`, the default, or `application/openmetrics-text`: the format of the metrics."
)
WAKE_TOKEN: Final = _header("Authorization", "`Bearer <token>`, with the token of the claim or of the webhook call.")

# Replies

COMMON_RESPONSE_HEADERS: Final[dict[str, str]] = {
    "Access-Control-Allow-Credentials": "With tokens, `true` for an origin in `allow_origin`: its pages may use the"
    " cookie.",
    "Access-Control-Allow-Origin": "`*`: pages of any origin may read the reply. With tokens, an origin in"
    " `allow_origin`.",
    "Access-Control-Expose-Headers": "The headers that such pages may read.",
    "Cache-Control": "Who may keep the reply, and for how long.",
    "Connection": "`close` if the server closes the connection after this reply.",
    "Content-Length": "The size of the body in bytes.",
    "Content-Security-Policy": "`sandbox`: a browser runs no script of stored content as this server's own.",
    "Cross-Origin-Resource-Policy": "`cross-origin`; `same-origin` in reply to a request with the cookie.",
    "Date": "When the server sent the reply.",
    "Referrer-Policy": "`no-referrer` in reply to a signed URL.",
    "Transfer-Encoding": "`chunked` for an event stream.",
    "Vary": "The request headers that a cache must compare.",
    "X-Request-Id": "The id of the request: the client's, or one that the server made. Errors always have one.",
    "X-Content-Type-Options": "`nosniff`.",
}
"""Any reply may carry them, so no operation lists them."""

RESPONSE_HEADERS: Final[dict[str, tuple[str, JsonSchema]]] = {
    "Access-Control-Allow-Headers": ("The request headers that pages of other origins may send.", TEXT),
    "Access-Control-Allow-Methods": ("The methods that pages of other origins may use.", TEXT),
    "Access-Control-Max-Age": ("For how many seconds a browser may remember the answer.", integer()),
    "Allow": ("The methods that the path supports.", TEXT),
    "Content-Disposition": (
        "`attachment` for content that could run scripts, so that a browser downloads it.",
        {"type": "string", "const": "attachment"},
    ),
    "Content-Encoding": ("How the body is compressed.", choice("zstd", "br", "gzip", "deflate")),
    "ETag": ("Identifies this body. Send it as `If-None-Match` to receive 304 if it has not changed.", TEXT),
    "Location": ("The absolute URL of the new stream.", {"type": "string", "format": "uri"}),
    "Log-Head": ("The highest committed id of the log.", integer()),
    "Log-Next": ("Where to continue: send it as `after`.", TEXT),
    "Log-Position": (
        "Present if the page ends within a record: how many of its messages were sent. Send it as `position`.",
        integer(),
    ),
    "Log-Rows": ("How many rows the page holds. It can be 0 before the end, if the filters match little.", integer()),
    "Log-Up-To-Date": ("`true` if nothing follows, for now or up to `until`.", FLAG),
    "Partition-Floor": ("The committed id up to which the partition's history may be gone.", integer()),
    "Producer-Epoch": ("The producer's epoch; with 403 `stale_epoch`, the one that is active.", integer()),
    "Producer-Expected-Seq": ("The sequence number that the server expects next.", integer()),
    "Producer-Received-Seq": ("The sequence number that the request had.", integer()),
    "Producer-Seq": ("The highest sequence number that is stored.", integer()),
    "Retry-After": ("Seconds to wait before the next attempt.", integer()),
    "Set-Cookie": ("The cookie with the token, or its deletion.", TEXT),
    "Snapshot-Committed-Id": ("The committed id up to which the snapshot goes.", integer()),
    "Snapshot-Offset": ("The offset of the first message that is not in the snapshot.", OFFSET),
    "Stream-Closed": ("`true` if the stream is closed and nothing follows.", FLAG),
    "Stream-Cursor": ("Send it as `cursor` with the next live read, so that caches can combine readers.", TEXT),
    "Stream-Earliest-Offset": ("The offset of the first message that is kept.", OFFSET),
    "Stream-Expires-At": ("The time at which the stream expires, as it was set.", TEXT),
    "Stream-Next-Offset": ("Where to continue; after an append or a HEAD, the end of the stream.", OFFSET),
    "Stream-Retention": ("How much history the stream keeps.", TEXT),
    "Stream-SSE-Data-Encoding": (
        "`base64` for event streams of content that is neither text nor JSON.",
        {"type": "string", "const": "base64"},
    ),
    "Stream-TTL": ("Seconds after the last use until the stream expires.", integer()),
    "Stream-Up-To-Date": ("`true` if nothing followed this data when the server read it.", FLAG),
    "WWW-Authenticate": ("`Bearer`, with the reason in `error_description`, even in a reply to HEAD.", TEXT),
    "X-Accel-Buffering": ("`no`, so that nginx does not hold events back.", {"type": "string", "const": "no"}),
}

ERROR_HEADERS: Final[dict[type[MainstemError], tuple[str, ...]]] = {
    errors.Unauthorized: ("WWW-Authenticate",),
    errors.SignatureInvalid: ("WWW-Authenticate",),
    errors.Forbidden: ("WWW-Authenticate",),
    errors.TokenInvalid: ("WWW-Authenticate",),
    errors.MethodNotAllowed: ("Allow",),
    errors.StaleEpoch: ("Producer-Epoch",),
    errors.ProducerGap: ("Producer-Expected-Seq", "Producer-Received-Seq"),
    errors.StreamClosed: ("Stream-Closed", "Stream-Next-Offset"),
    errors.TailMoved: ("Stream-Next-Offset",),
    errors.OffsetGone: ("Stream-Earliest-Offset",),
}
"""The headers that tell a client more about an error. Retryable errors have `Retry-After` as well."""
