"""The table of headers is complete, and describes each header as clients rely on it."""

import re
from pathlib import Path

import mainstem
from mainstem.http.headers import CORS_REQUEST_HEADERS, HEADERS, Api, list_exposed

OWN = re.compile(rb'b"((?:stream|producer|log|snapshot|partition)-[a-z-]+)"')


def test_each_header_has_exactly_one_row():
    names = [header.name.lower() for header in HEADERS]
    assert len(set(names)) == len(names)


def test_each_of_our_own_headers_has_a_row():
    source = Path(mainstem.__file__).parent
    files = [path for folder in ("http", "server", "streams") for path in (source / folder).rglob("*.py")]
    used = {name.decode() for path in files for name in OWN.findall(path.read_bytes())}
    assert len(used) > 20
    assert used <= {header.name.lower() for header in HEADERS}


def test_pages_may_send_every_header_that_a_request_needs():
    assert CORS_REQUEST_HEADERS == (
        b"Content-Type, Authorization, If-None-Match, If-Match, Last-Event-ID, Accept-Encoding, Traceparent, "
        b"Tracestate, Stream-Seq, Stream-Closed, Stream-TTL, Stream-Expires-At, Stream-Retention, Stream-Forked-From, "
        b"Stream-Fork-Offset, Stream-Fork-Sub-Offset, Producer-Id, Producer-Epoch, Producer-Seq, "
        b"X-Request-Id"
    )


def test_pages_may_read_every_header_that_a_reply_carries():
    assert list_exposed(Api.STREAMS) == (
        b"Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, Stream-TTL, Stream-Expires-At, "
        b"Stream-SSE-Data-Encoding, Stream-Retention, Stream-Earliest-Offset, Producer-Epoch, Producer-Seq, "
        b"Producer-Expected-Seq, Producer-Received-Seq, ETag, Location, Retry-After, Content-Encoding, X-Request-Id"
    )
    assert list_exposed(Api.LOG) == (
        b"Log-Next, Log-Position, Log-Head, Log-Rows, Log-Up-To-Date, Retry-After, X-Request-Id"
    )
