"""Every header with a rule of its own, one row each: whether a request may repeat it, and its CORS rules.

Their values are parsed where they are used: those of streams in `mainstem.streams.http.headers`.
"""

from enum import Flag, auto
from typing import Final, NamedTuple


class Api(Flag):
    """The API whose replies expose a header to web pages of other origins."""

    NONE = 0
    STREAMS = auto()
    """All of them except the log."""
    LOG = auto()
    """`/v1/log` and the paths below it."""


class Header(NamedTuple):
    name: str
    single: bool = False
    """Whether to refuse a request that repeats it, since it would be unclear which one counts. Others are joined."""
    cors_request: bool = False
    """Whether a page of another origin may send it (Access-Control-Allow-Headers)."""
    exposed: Api = Api.NONE
    """The APIs whose replies let a page of another origin read it (Access-Control-Expose-Headers)."""


HEADERS: Final = (
    Header("Host", single=True),
    Header("Origin", single=True),
    Header("Content-Length", single=True),
    Header("Content-Type", single=True, cors_request=True),
    Header("Authorization", cors_request=True),
    Header("If-None-Match", cors_request=True),
    Header("If-Match", single=True, cors_request=True),
    Header("Last-Event-ID", single=True, cors_request=True),
    Header("Accept-Encoding", cors_request=True),
    Header("Traceparent", cors_request=True),
    Header("Tracestate", cors_request=True),
    Header("Stream-Next-Offset", exposed=Api.STREAMS),
    Header("Stream-Cursor", exposed=Api.STREAMS),
    Header("Stream-Up-To-Date", exposed=Api.STREAMS),
    Header("Stream-Seq", single=True, cors_request=True),
    Header("Stream-Closed", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Stream-TTL", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Stream-Expires-At", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Stream-SSE-Data-Encoding", exposed=Api.STREAMS),
    Header("Stream-Retention", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Stream-Earliest-Offset", exposed=Api.STREAMS),
    Header("Stream-Forked-From", single=True, cors_request=True),
    Header("Stream-Fork-Offset", single=True, cors_request=True),
    Header("Stream-Fork-Sub-Offset", single=True, cors_request=True),
    Header("Producer-Id", single=True, cors_request=True),
    Header("Producer-Epoch", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Producer-Seq", single=True, cors_request=True, exposed=Api.STREAMS),
    Header("Producer-Expected-Seq", exposed=Api.STREAMS),
    Header("Producer-Received-Seq", exposed=Api.STREAMS),
    Header("Log-Next", exposed=Api.LOG),
    Header("Log-Position", exposed=Api.LOG),
    Header("Log-Head", exposed=Api.LOG),
    Header("Log-Rows", exposed=Api.LOG),
    Header("Log-Up-To-Date", exposed=Api.LOG),
    Header("Partition-Floor"),
    Header("Snapshot-Committed-Id"),
    Header("Snapshot-Offset"),
    Header("ETag", exposed=Api.STREAMS),
    Header("Location", exposed=Api.STREAMS),
    Header("Retry-After", exposed=Api.STREAMS | Api.LOG),
    Header("Content-Encoding", exposed=Api.STREAMS),
    Header("X-Request-Id", cors_request=True, exposed=Api.STREAMS | Api.LOG),
)

SINGLE_HEADERS: Final = frozenset(header.name.lower().encode() for header in HEADERS if header.single)
CORS_REQUEST_HEADERS: Final = ", ".join(header.name for header in HEADERS if header.cors_request).encode()


def list_exposed(api: Api) -> bytes:
    """Return the value of Access-Control-Expose-Headers."""
    return ", ".join(header.name for header in HEADERS if api in header.exposed).encode()
