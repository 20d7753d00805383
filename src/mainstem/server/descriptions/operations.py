"""The operations of every route in `mainstem.server.routes`, by the route's path."""

from typing import Final

from mainstem import errors, limits
from mainstem.log.records import Extent
from mainstem.metrics import exposition
from mainstem.server.descriptions import bodies, headers
from mainstem.server.descriptions.credential_operations import COOKIE, SIGNED_URLS
from mainstem.server.descriptions.job_operations import JOBS
from mainstem.server.descriptions.model import (
    EVENT_STREAM,
    JSON,
    TEXT,
    Access,
    Body,
    In,
    Operation,
    Parameter,
    Path,
    Reply,
    choice,
    group_digits,
    integer,
)
from mainstem.server.descriptions.session_operations import SESSION, SESSIONS, WHOAMI
from mainstem.server.descriptions.stream_operations import CURSOR, LIVE, OFFSET, SIGNATURE, STREAM_PATH
from mainstem.server.descriptions.subscription_operations import SUBSCRIPTION, SUBSCRIPTION_CONTROLS
from mainstem.server.endpoints.partitions import PruneRequest, SnapshotRequest
from mainstem.server.endpoints.stream_snapshots import StreamSnapshotRequest
from mainstem.server.log_api.cuts import Division
from mainstem.server.log_api.formats import ARROW, NDJSON
from mainstem.server.log_api.index import INDEXES
from mainstem.server.log_api.selection import COLUMNS
from mainstem.streams.reading.sets import SetEvent
from mainstem.streams.rules.sse import Control

_TIME: Final = integer(0, limits.INTEGER_MAX)
_ID: Final = integer(0, limits.INTEGER_MAX)

PARTITION_NAME: Final = Parameter(
    "name",
    f"The partition's name, percent-encoded: 1 to {limits.PARTITION_NAME_BYTES_MAX} bytes of UTF-8 after normalisation."
    " It may contain slashes.",
    TEXT,
    In.PATH,
    required=True,
)
_PREFIX: Final = "Only {} that begin with this."
_PAGE: Final = (
    Parameter("after", "Begin after this one: the `next` of the page before."),
    Parameter(
        "limit",
        f"How many to return: 1 to {group_digits(limits.LISTED_STREAMS_MAX)}; {limits.LISTED_STREAMS} by default.",
        integer(1, limits.LISTED_STREAMS_MAX, default=limits.LISTED_STREAMS),
    ),
)
_SNAPSHOT_SIZE: Final = f"Up to {limits.SNAPSHOT_BYTES_MAX // limits.MIB} MiB."
_LIVE_ERRORS: Final = (errors.TooManyReaders, errors.ShareExceeded)
_STREAM_ERRORS: Final = (errors.BadPath, errors.StreamNotFound, errors.StreamGone)

STREAMS: Final = Path(
    "/v1/streams",
    {
        "get": Operation(
            "listStreams",
            "Streams",
            "List streams",
            "Streams in the order of their paths. With tokens, only streams that the caller may read. A request with"
            f" `search` looks at {group_digits(limits.SEARCHED_STREAMS_MAX)} streams at most: its page may be short or"
            " empty although `next` is not null.",
            (
                Parameter("prefix", _PREFIX.format("paths")),
                Parameter("search", "Only paths that contain this, in upper or lower case."),
                *_PAGE,
            ),
            None,
            (Reply(200, "A page of the list.", (), {JSON: bodies.StreamList}),),
            (errors.BadQuery,),
            access=Access.ANY,
        )
    },
)

SUBSCRIPTIONS: Final = Path(
    "/v1/subscriptions",
    {
        "get": Operation(
            "listSubscriptions",
            "Subscriptions",
            "List subscriptions",
            "Subscriptions in the order of their ids.",
            (Parameter("prefix", _PREFIX.format("ids")), *_PAGE),
            None,
            (Reply(200, "A page of the list.", (), {JSON: bodies.SubscriptionList}),),
            (errors.BadQuery,),
            access=Access.ADMIN,
        )
    },
)

STREAM_SET: Final = Path(
    "/v1/stream-set",
    {
        "get": Operation(
            "followStreams",
            "Streams",
            "Follow many streams over one connection",
            "Each event names its stream, and its id resumes all of them.",
            (
                Parameter(
                    "stream",
                    f"A stream's path; repeat it for up to {limits.SET_STREAMS_MAX} streams.",
                    TEXT,
                    required=True,
                    repeats=True,
                ),
                Parameter("live", "`sse`.", choice("sse"), required=True),
                Parameter("offset", "Where to begin streams that are not in `resume`. The default is `-1`."),
                Parameter("resume", "The id of the last event that the client received."),
                headers.LAST_EVENT_ID._replace(
                    description="The id of the last event that the client received. It replaces `resume`."
                ),
            ),
            None,
            (
                Reply(
                    200,
                    "An event stream.",
                    ("X-Accel-Buffering",),
                    {EVENT_STREAM: TEXT},
                    events={"data": SetEvent, "control": SetEvent, "deleted": SetEvent, "gone": SetEvent},
                ),
            ),
            (
                *_STREAM_ERRORS,
                errors.RepeatedHeader,
                errors.BadQuery,
                errors.BadOffset,
                errors.OffsetGone,
                *_LIVE_ERRORS,
            ),
        )
    },
)

_KEPT: Final = ("Stream-Earliest-Offset", "Stream-Next-Offset")
_STREAM_SNAPSHOT_HEADERS: Final = ("Snapshot-Committed-Id", "Snapshot-Offset", *_KEPT)

STREAM_SNAPSHOT: Final = Path(
    "/v1/stream-snapshot/{path}",
    {
        "put": Operation(
            "putStreamSnapshot",
            "Snapshots and pruning",
            "Store the snapshot of a JSON stream",
            "Replaces the stream's snapshot. A stream that is deleted and created again has none.",
            (STREAM_PATH,),
            Body(_SNAPSHOT_SIZE, {JSON: StreamSnapshotRequest}),
            (Reply(204, "The snapshot is durable."),),
            (
                *_STREAM_ERRORS,
                errors.RepeatedHeader,
                errors.BadRequest,
                errors.BadOffset,
                errors.ContentTypeMismatch,
                errors.BodyTooLarge,
            ),
            access=Access.ADMIN,
            writes=True,
        ),
        "get": Operation(
            "getStreamSnapshot",
            "Snapshots and pruning",
            "Retrieve the snapshot of a stream",
            "",
            (STREAM_PATH,),
            None,
            (Reply(200, "The snapshot.", _STREAM_SNAPSHOT_HEADERS, {JSON: bodies.StreamSnapshot}),),
            (*_STREAM_ERRORS, errors.NotFound),
            _KEPT,
        ),
        "head": Operation(
            "describeStreamSnapshot",
            "Snapshots and pruning",
            "Look up how far a stream's snapshot goes",
            "",
            (STREAM_PATH,),
            None,
            (Reply(200, "The stream has a snapshot.", _STREAM_SNAPSHOT_HEADERS),),
            (*_STREAM_ERRORS, errors.NotFound),
            _KEPT,
        ),
    },
)

STREAM_OFFSET: Final = Path(
    "/v1/stream-offset/{path}",
    {
        "get": Operation(
            "findOffset",
            "Streams",
            "Find the offset of a time",
            "Returns where the first append that was committed at or after the time begins, or the end of the stream if"
            " there is none.",
            (
                STREAM_PATH,
                Parameter(
                    "time",
                    "A time as RFC 3339, such as `2026-01-31T12:00:00Z`.",
                    {"type": "string", "format": "date-time"},
                    required=True,
                ),
            ),
            None,
            (Reply(200, "The offset.", (), {JSON: bodies.FoundOffset}),),
            (*_STREAM_ERRORS, errors.BadQuery),
        )
    },
)

PARTITIONS: Final = Path(
    "/v1/partitions",
    {
        "get": Operation(
            "listPartitions",
            "Partitions",
            "List partitions",
            "Partitions that have events, a floor or a snapshot, in the order of their names. With tokens, only"
            " partitions that the caller may use.",
            (Parameter("prefix", _PREFIX.format("names")), *_PAGE),
            None,
            (Reply(200, "A page of the list.", (), {JSON: bodies.PartitionList}),),
            (errors.BadQuery,),
            access=Access.ANY,
        )
    },
)

_PARTITION_READ: Final = (
    errors.BadPath,
    errors.RepeatedHeader,
    errors.BadOffset,
    errors.BadQuery,
    errors.BadRequest,
    errors.OffsetGone,
)

PARTITION: Final = Path(
    "/v1/partition/{name}",
    {
        "get": Operation(
            "readPartition",
            "Partitions",
            "Read the events of a partition",
            "Reads like a JSON stream whose offsets are committed ids. A partition is never closed and never 404.",
            (PARTITION_NAME, OFFSET, LIVE, CURSOR, SIGNATURE, headers.IF_NONE_MATCH, headers.LAST_EVENT_ID),
            None,
            (
                Reply(
                    200,
                    "A page of events, `[]` at the end; with `live=sse`, an event stream.",
                    ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Cursor", "ETag", "X-Accel-Buffering"),
                    {
                        JSON: list[bodies.CommittedEvent],
                        EVENT_STREAM: TEXT,
                    },
                    events={"data": list[bodies.CommittedEvent], "control": Control},
                ),
                Reply(
                    204,
                    "Long-poll: nothing was committed in time.",
                    ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Cursor"),
                ),
                Reply(304, "The client has this page.", ("Stream-Next-Offset", "Stream-Up-To-Date", "ETag")),
            ),
            (*_PARTITION_READ, *_LIVE_ERRORS),
        ),
        "head": Operation(
            "describePartition",
            "Partitions",
            "Look up the end of a partition",
            "",
            (PARTITION_NAME, OFFSET, SIGNATURE),
            None,
            (Reply(200, "The partition's end.", ("Stream-Next-Offset",)),),
            _PARTITION_READ,
        ),
    },
)

_PARTITION_SNAPSHOT_HEADERS: Final = ("Partition-Floor", "Snapshot-Committed-Id")
_NAME_ERRORS: Final = (errors.BadPath, errors.RepeatedHeader, errors.BadRequest)

SNAPSHOT: Final = Path(
    "/v1/snapshot/{name}",
    {
        "put": Operation(
            "putPartitionSnapshot",
            "Snapshots and pruning",
            "Store the snapshot of a partition",
            "Replaces the partition's snapshot.",
            (PARTITION_NAME,),
            Body(_SNAPSHOT_SIZE, {JSON: SnapshotRequest}),
            (Reply(204, "The snapshot is durable."),),
            (*_NAME_ERRORS, errors.BodyTooLarge),
            access=Access.ADMIN,
            writes=True,
        ),
        "get": Operation(
            "getPartitionSnapshot",
            "Snapshots and pruning",
            "Retrieve the snapshot of a partition",
            "",
            (PARTITION_NAME,),
            None,
            (Reply(200, "The snapshot.", _PARTITION_SNAPSHOT_HEADERS, {JSON: bodies.PartitionSnapshot}),),
            (*_NAME_ERRORS, errors.NotFound),
            ("Partition-Floor",),
            access=Access.ADMIN,
        ),
        "head": Operation(
            "describePartitionSnapshot",
            "Snapshots and pruning",
            "Look up how far a partition's snapshot goes",
            "",
            (PARTITION_NAME,),
            None,
            (Reply(200, "The partition has a snapshot.", _PARTITION_SNAPSHOT_HEADERS),),
            (*_NAME_ERRORS, errors.NotFound),
            ("Partition-Floor",),
            access=Access.ADMIN,
        ),
    },
)

PRUNE: Final = Path(
    "/v1/prune",
    {
        "post": Operation(
            "prune",
            "Snapshots and pruning",
            "Prune partitions and streams",
            "Raises the floors of partitions, then trims the streams in their order. The server erases the data in the"
            " background.",
            (),
            Body(f"1 to {group_digits(limits.FLOORS_MAX)} partitions and streams together.", {JSON: PruneRequest}),
            (Reply(202, "The floors are durable, and the streams are trimmed."),),
            (
                errors.RepeatedHeader,
                errors.BadRequest,
                errors.BadPath,
                errors.BadOffset,
                errors.StreamNotFound,
                errors.StreamGone,
                errors.BodyTooLarge,
            ),
            access=Access.ADMIN,
            writes=True,
        )
    },
)

_FILTERS: Final = (
    Parameter("kind", "Only messages of streams, or only events.", choice("stream", "event")),
    Parameter("prefix", "Only streams whose paths begin with this."),
    Parameter(
        "stream",
        "Only this stream: a path or a glob (`*` within a segment, `**` for any number of segments). May be repeated.",
        repeats=True,
    ),
    Parameter("partition", "Only events of this partition. May be repeated.", repeats=True),
)

LOG: Final = Path(
    "/v1/log",
    {
        "get": Operation(
            "readLog",
            "Log",
            "Read the log",
            "Returns the rows after a committed id: one row per message, of streams and partitions together. An unknown"
            " parameter is refused.",
            (
                Parameter("after", "Begin after this committed id. 0, the default, is the beginning.", _ID),
                Parameter(
                    "position",
                    "Allow pages to end within large records, and skip this many messages of the record after `after`."
                    " Send 0 first, then `Log-Position`.",
                    _ID,
                ),
                Parameter("until", "End with this committed id. The default is the end of the log.", _ID),
                Parameter(
                    "max_bytes",
                    f"About how many bytes a page may hold: {limits.LOG_PAGE_BYTES // limits.MIB} MiB by default,"
                    f" {limits.LOG_PAGE_BYTES_MAX // limits.MIB} MiB at most. A page holds at least one record.",
                    integer(0, limits.INTEGER_MAX, default=limits.LOG_PAGE_BYTES),
                ),
                *_FILTERS,
                Parameter("since", "Committed at or after this time, in microseconds since 1970.", _TIME),
                Parameter("before", "Committed before this time, in microseconds since 1970.", _TIME),
                Parameter("columns", f"Only these columns, separated by commas: {', '.join(COLUMNS)}."),
                Parameter(
                    "live",
                    "`sse` sends the rows as an event stream, and then those that are committed from now on.",
                    choice("sse"),
                ),
                headers.ACCEPT_LOG,
                headers.LAST_EVENT_ID._replace(
                    description="With `live=sse`: the id of the last event that the client received. It replaces"
                    " `after` and `position`."
                ),
            ),
            None,
            (
                Reply(
                    200,
                    "A page of rows; with `live=sse`, an event stream.",
                    ("Log-Next", "Log-Head", "Log-Rows", "Log-Position", "Log-Up-To-Date", "X-Accel-Buffering"),
                    {NDJSON: TEXT, ARROW: {}, EVENT_STREAM: TEXT},
                    lines=bodies.LogRow,
                    events={"data": TEXT, "control": bodies.LogControl},
                ),
            ),
            (
                errors.RepeatedHeader,
                errors.BadQuery,
                errors.BadRequest,
                errors.RecordTooLarge,
                errors.NotAcceptable,
                errors.ArrowMissing,
                *_LIVE_ERRORS,
            ),
            access=Access.ADMIN,
        )
    },
)

LOG_HEAD: Final = Path(
    "/v1/log/head",
    {
        "get": Operation(
            "getLogHead",
            "Log",
            "Look up which log this is, and where it begins and ends",
            "The filters are those of `/v1/log`. They affect `pruned` only.",
            (
                *_FILTERS,
                Parameter(
                    "counts",
                    "`true` also counts appends, events, messages and bytes, which reads every record.",
                    choice("true", "false"),
                ),
            ),
            None,
            (Reply(200, "The identity and the bounds of the log.", (), {JSON: bodies.LogHead}),),
            (errors.BadQuery, errors.BadRequest),
            access=Access.ADMIN,
        )
    },
)

LOG_BOUNDS: Final = Path(
    "/v1/log/bounds",
    {
        "get": Operation(
            "measureLog",
            "Log",
            "Find the end of a range of limited size",
            "Returns the last committed id of a range that holds at most so many messages or bytes. A record is never"
            " divided, so a single record may exceed the limit.",
            (
                Parameter("after", "Begin after this committed id. The default is 0.", _ID),
                Parameter("until", "End with this committed id. The default is the end of the log.", _ID),
                Parameter("rows", "At most so many messages. Required unless `bytes` is given.", _ID),
                Parameter("bytes", "At most so many bytes. Required unless `rows` is given.", _ID),
            ),
            None,
            (Reply(200, "The range.", (), {JSON: Extent}),),
            (errors.BadQuery,),
            access=Access.ADMIN,
        )
    },
)

LOG_CUTS: Final = Path(
    "/v1/log/cuts",
    {
        "get": Operation(
            "divideLog",
            "Log",
            "Divide a range among several readers",
            "Returns cuts that divide a range into parts with about the same number of bytes. A large record is"
            " divided, too: a cut then has a `position`.",
            (
                Parameter("after", "Begin after this committed id. The default is 0.", _ID),
                Parameter("until", "End with this committed id. The default is the end of the log.", _ID),
                Parameter(
                    "parts",
                    f"How many parts to make: 1, the default, to {group_digits(limits.LOG_CUTS_MAX)}.",
                    integer(1, limits.LOG_CUTS_MAX, default=1),
                ),
                Parameter("min_bytes", "Make fewer parts rather than parts with fewer bytes than this.", _ID),
                Parameter("max_bytes", "Make more parts rather than parts with more bytes than this.", _ID),
                Parameter("max_rows", "Make more parts rather than parts with more messages than this.", _ID),
                Parameter("kind", "Consider only messages of streams, or only events.", choice("stream", "event")),
                Parameter("prefix", "Consider only streams whose paths begin with this."),
                Parameter("stream", "Consider only this stream: a path or a glob. May be repeated.", repeats=True),
                Parameter("partition", "Consider only events. May be repeated.", repeats=True),
            ),
            None,
            (Reply(200, "The cuts.", (), {JSON: Division}),),
            (errors.BadQuery, errors.BadRequest),
            access=Access.ADMIN,
        )
    },
)

LOG_ID: Final = Path(
    "/v1/log/id",
    {
        "get": Operation(
            "findLogId",
            "Log",
            "Find the committed id of a time or an offset",
            "",
            (
                Parameter("after", "Only records after this committed id. The default is 0.", _ID),
                Parameter("time", "The first record that was committed at or after this RFC 3339 time."),
                Parameter("stream", "The path of a stream, together with `offset`."),
                Parameter("offset", "The record of that stream with the message at this offset."),
            ),
            None,
            (Reply(200, "The record.", (), {JSON: bodies.LogId}),),
            (errors.BadQuery, errors.BadOffset, errors.StreamNotFound),
            access=Access.ADMIN,
        )
    },
)

LOG_INDEX: Final = Path(
    "/v1/log/index",
    {
        "get": Operation(
            "readLogIndex",
            "Log",
            "Read what the server remembers beside the log",
            "For jobs: an audit compares it with the log itself, and retention reads how much a stream keeps.",
            (
                Parameter("of", "Which index to read.", choice(*INDEXES), required=True),
                Parameter("prefix", "Only names that begin with this."),
                Parameter("after", "Begin after this name: the `Log-Next` of the page before."),
                Parameter(
                    "limit",
                    f"How many rows to return: 1 to {group_digits(limits.INDEX_PAGE_MAX)};"
                    f" {group_digits(limits.SCAN_PAGE)} by default.",
                    integer(1, limits.INDEX_PAGE_MAX, default=limits.SCAN_PAGE),
                ),
                headers.ACCEPT_LOG,
            ),
            None,
            (
                Reply(
                    200,
                    "Rows in the order of their names.",
                    ("Log-Rows", "Log-Next"),
                    {NDJSON: TEXT, ARROW: {}},
                    lines=bodies.IndexRow,
                ),
            ),
            (errors.RepeatedHeader, errors.BadQuery, errors.NotAcceptable, errors.ArrowMissing),
            access=Access.ADMIN,
        )
    },
)


def _health(id_: str, summary: str, description: str, reply: Reply, *faults: type[errors.MainstemError]) -> Operation:
    return Operation(id_, "Server", summary, description, (), None, (reply,), faults, access=Access.PUBLIC)


HEALTH: Final = Path(
    "/healthz",
    {
        "get": _health(
            "checkLiveness",
            "Check that the process runs",
            "Answers every method.",
            Reply(200, "The process serves requests.", (), {JSON: bodies.Live}),
        )
    },
)

READY: Final = Path(
    "/readyz",
    {
        "get": _health(
            "checkReadiness",
            "Check that the server accepts writes",
            "Answers every method.",
            Reply(200, "The server accepts writes.", (), {JSON: bodies.Ready}),
            errors.StoreFull,
        )
    },
)

_METRICS_ERRORS: Final = (errors.RepeatedHeader, errors.NotFound, errors.LocalOnly)

METRICS: Final = Path(
    "/metrics",
    {
        "get": Operation(
            "readMetrics",
            "Server",
            "Read the metrics",
            "For Prometheus, and for whatever reads its format. `--metrics` decides who may read them.",
            (headers.ACCEPT_METRICS,),
            None,
            (
                Reply(
                    200,
                    "The current values of all metrics.",
                    (),
                    {exposition.TEXT: TEXT, exposition.OPEN_METRICS: TEXT},
                ),
            ),
            _METRICS_ERRORS,
            access=Access.METRICS,
        ),
        "head": Operation(
            "readMetricsHeaders",
            "Server",
            "Check that the metrics can be read",
            "",
            (headers.ACCEPT_METRICS,),
            None,
            (Reply(200, "They can."),),
            _METRICS_ERRORS,
            access=Access.METRICS,
        ),
    },
)

_ETAGS: Final = headers.IF_NONE_MATCH._replace(
    description="ETags. If one of them matches, the reply is 304 without a body."
)


def _document(id_: str, summary: str) -> dict[str, Operation]:
    about = ("ETag",)
    get = Operation(
        id_,
        "Server",
        summary,
        "",
        (_ETAGS, headers.ACCEPT_ENCODING._replace(description="`zstd`, `br`, `gzip` or `deflate`.")),
        None,
        (
            Reply(200, "The document.", (*about, "Content-Encoding"), {JSON: {"type": "object"}}),
            Reply(304, "The client has this document.", about),
        ),
        (errors.RepeatedHeader,),
        access=Access.PUBLIC,
    )
    head = Operation(
        f"{id_}Headers",
        "Server",
        "Retrieve the headers of this document",
        "",
        (_ETAGS,),
        None,
        (Reply(200, "The document exists.", about), Reply(304, "The client has this document.", about)),
        (errors.RepeatedHeader,),
        access=Access.PUBLIC,
    )
    return {"get": get, "head": head}


OPENAPI: Final = Path("/openapi.json", _document("getOpenApi", "Retrieve the description of this HTTP API"))
ASYNCAPI: Final = Path("/asyncapi.json", _document("getAsyncApi", "Retrieve the description of the sync messages"))

PATHS_BY_ROUTE: Final[dict[bytes, Path | None]] = {
    b"/v1/streams": STREAMS,
    b"/v1/subscriptions": SUBSCRIPTIONS,
    b"/v1/subscriptions/": SUBSCRIPTION,
    b"/v1/stream-set": STREAM_SET,
    b"/v1/stream-snapshot/": STREAM_SNAPSHOT,
    b"/v1/stream-offset/": STREAM_OFFSET,
    b"/v1/partitions": PARTITIONS,
    b"/v1/partition/": PARTITION,
    b"/v1/snapshot/": SNAPSHOT,
    b"/v1/prune": PRUNE,
    b"/v1/jobs": JOBS,
    b"/v1/sessions": SESSIONS,
    b"/v1/sessions/": SESSION,
    b"/v1/whoami": WHOAMI,
    b"/v1/cookie": COOKIE,
    b"/v1/signed-urls": SIGNED_URLS,
    b"/v1/log": LOG,
    b"/v1/log/head": LOG_HEAD,
    b"/v1/log/bounds": LOG_BOUNDS,
    b"/v1/log/cuts": LOG_CUTS,
    b"/v1/log/id": LOG_ID,
    b"/v1/log/index": LOG_INDEX,
    b"/v1/log/": None,  # 404
    b"/metrics": METRICS,
    b"/healthz": HEALTH,
    b"/readyz": READY,
    b"/openapi.json": OPENAPI,
    b"/asyncapi.json": ASYNCAPI,
    b"/console": None,  # web pages, for people
    b"/console/": None,
    b"/client/": None,  # a file of JavaScript, for pages
    b"/_test/": None,  # see fault_operations.py
}
"""The path that each route serves; None for a route that serves nothing of its own."""
FURTHER_PATHS: Final = {b"/v1/subscriptions/": SUBSCRIPTION_CONTROLS}
"""What else a route serves."""
