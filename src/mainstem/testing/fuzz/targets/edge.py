"""HTTP/1.1: requests on a connection, heads that resemble each other, and chunked bodies."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import httptools

from mainstem.errors import MainstemError
from mainstem.server.edge.bodies import ChunkedBody
from mainstem.server.edge.heads import END, Heads, RequestHead, parse_head
from mainstem.testing.connection_machines import drive, single
from mainstem.testing.fuzz.target import Target

SINGLE_BYTES_MAX: Final = 256
HOST: Final = b"Host: a\r\n"
CHUNKED_HEAD: Final = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
HEADS_SEPARATOR: Final = b"\0"


def cut_in_two_places(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the input after its first two bytes, and the same in up to three parts; the two bytes say where to cut."""
    raw = data[2:]
    places = sorted({0, len(raw), *(byte * len(raw) // 256 for byte in data[:2])})
    return raw, [raw[start:end] for start, end in pairwise(places)]


def read_requests(data: bytes) -> None:
    """The parts in which requests arrive make no difference, and bad input ends with one documented error.

    A short input that is cut twice in the same place arrives byte by byte. With all of them, that took four fifths of
    the time, and two cuts can be anywhere.
    """
    raw, parts = cut_in_two_places(data)
    if data[:1] == data[1:2] and len(raw) <= SINGLE_BYTES_MAX:
        parts = list(single(raw))
    assert drive(parts) == drive([raw])


def remember_heads(data: bytes) -> None:
    """A head that resembles an earlier one is parsed like a new one."""
    heads = Heads()
    for raw in data.split(HEADS_SEPARATOR):
        expected = _read_head(parse_head, raw)
        assert _read_head(lambda raw: heads.parse(raw).head, raw) == expected
        if isinstance(expected, RequestHead):
            assert heads.parse(raw).match(raw + END) == expected


def _read_head(parse: Callable[[bytes], RequestHead], raw: bytes) -> RequestHead | str:
    """Return the head, or the code of the error."""
    try:
        return parse(raw)
    except MainstemError as error:
        return error.code


def read_chunks(data: bytes) -> None:
    """The parts make no difference, and llhttp reads every accepted body in the same way."""
    raw, parts = cut_in_two_places(data)
    whole = _join_chunks([raw])
    assert _join_chunks(parts) == whole
    if not isinstance(whole, str) and whole[1] is not None:
        assert BodyCollector(raw).found == whole[0]


class BodyCollector:
    """Collects the first body that llhttp finds; `found` is None if there is none."""

    def __init__(self, raw: bytes) -> None:
        self.found: bytes | None = None
        self._parts: list[bytes] = []
        try:
            httptools.HttpRequestParser(self).feed_data(CHUNKED_HEAD + raw)
        except httptools.HttpParserError:
            pass  # anything may follow the body

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self.found is None:
            self.found = b"".join(self._parts)


def _join_chunks(parts: list[bytes]) -> tuple[bytes, bytes | None] | str:
    """Return the data and, once the body is complete, the bytes after it; or the code of the error."""
    body = ChunkedBody()
    found = rest = b""
    for part in parts:
        if body.complete:
            rest += part
            continue
        try:
            piece, more = body.feed(part)
            found += piece
            while more:
                piece, more = body.feed(b"")
                found += piece
        except MainstemError as error:
            return error.code
    return found, body.take_rest() + rest if body.complete else None


POST: Final = b"POST /v1/stream/a HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n"
GET: Final = b"GET /v1/stream/a?offset=-1 HTTP/1.1\r\nHost: a\r\n"
TARGETS: Final = (
    Target(
        "requests",
        read_requests,
        (
            b"\x40\x80" + GET + b"\r\n",
            b"\x20\xa0" + POST + b"Content-Length: 5\r\n\r\nhello" + GET + b"\r\n",
            b"\xb0\xe0" + POST + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
            b"\x01\x02\r\nPUT http://b:80/v1/stream/%5fa HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"\x70\x71" + POST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
            b"\x30\x90GET /v1/sync HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            b"\x00\x00OPTIONS * HTTP/1.0\r\n\r\n",
        ),
        (b"Host: a\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1", b"0\r\n\r\n", GET),
    ),
    Target(
        "heads",
        remember_heads,
        (
            b"POST /a HTTP/1.1\r\nHost: a\r\nProducer-Seq: 8\r\nContent-Length: 5\0"
            b"POST /a HTTP/1.1\r\nHost: a\r\nProducer-Seq: 9\r\nContent-Length: 12\0"
            b"POST /a HTTP/1.1\r\nHost: a\r\nProducer-Seq: 0\r\nContent-Length: 0",
            b"POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\0"
            b"POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0",
            b"GET /a HTTP/1.1\r\nHost: a\0GET http://b/a HTTP/1.1\r\nHost: a\r\nX: y\r\nX: z",
        ),
        (b"\0", b"\r\nProducer-Seq: 7", b"\r\ncontent-length: 1", b"\r\nContent-Length: 01", HOST),
    ),
    Target(
        "chunks",
        read_chunks,
        (b"\x40\x80" + b'5;a="b"\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET', b"\x10\xf0" + b"0\r\n\r\n"),
        (b"0\r\n\r\n", b"1\r\nx\r\n", b";a=b", b"ffffffffffffffff", b"Content-Length: 1\r\n"),
    ),
)
