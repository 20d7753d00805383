"""Every request that the edge accepts is accepted by h11 and llhttp too, and parsed in the same way.

So no proxy between a client and the server sees other requests than the server does. The edge may be stricter.
"""

from itertools import pairwise
from typing import Any

import h11
import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstem.server.edge.heads import RequestHead
from mainstem.testing.connection_machines import drive, single
from tests.support.examples import examples
from tests.support.hostile_requests import ILLEGAL, LEGAL

# Compared by their effect, the body. For an absolute target the oracles keep the Host header, which has no effect.
FRAMED = (b"host", b"content-length", b"transfer-encoding")
SMALL = [raw.replace(b"%PATH%", b"/x") for raw in (*ILLEGAL.values(), *LEGAL.values()) if len(raw) < 1_000]
PIECES = [
    *(bytes([byte]) for byte in range(256)),
    *(b"\r\n", b"\r\n\r\n", b"\n\n", b": ", b" ", b"0\r\n\r\n", b"chunked", b"Content-Length: 3\r\n", b"HTTP/1.1"),
    *(b"Transfer-Encoding: chunked\r\n", b"Host: a\r\n", b";x=y", b"Connection: upgrade\r\nUpgrade: h2c\r\n"),
]


@st.composite
def mutated(draw):
    """One or two requests of the corpus with a few bytes changed."""
    raw = b"".join(draw(st.lists(st.sampled_from(SMALL), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw)))
        removed = draw(st.integers(0, 4))
        raw = raw[:at] + draw(st.sampled_from([b"", *PIECES])) + raw[at + removed :]
    return raw


def seen_by_us(raw):
    """Return the complete requests up to the first error, as pairs of head and body."""
    return [item for item in drive([raw]) if not isinstance(item, str)]


def normal(head: RequestHead, body: bytes):
    """Return a request in the form in which the oracles report it."""
    return head.method, body, sorted(field for field in head.headers if field[0] not in FRAMED)


def h11_requests(raw, number):
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=200_000)
    connection.receive_data(raw)
    found: list[Any] = []
    try:
        _ask_h11(connection, found, number)
    except h11.RemoteProtocolError as error:
        # The only rule where h11 is stricter: an empty line before a request, which RFC 9112 asks servers to ignore.
        if str(error) != "no request line received":
            raise
    return found


def _ask_h11(connection, found, number):
    while len(found) < number:
        request = connection.next_event()
        assert isinstance(request, h11.Request), f"h11 sees {request!r}"
        body = b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += bytes(event.data)
        assert isinstance(event, h11.EndOfMessage), f"h11 sees {event!r}"
        fields = [(bytes(name), bytes(value)) for name, value in request.headers]
        found.append((bytes(request.method), body, sorted(f for f in fields if f[0] not in FRAMED)))
        if len(found) < number:
            connection.send(h11.Response(status_code=204, headers=[]))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()


class Collector:
    """Collects the requests that llhttp reports."""

    def __init__(self):
        self.found: list[Any] = []
        self.in_head = True
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self):
        self.fields, self.body, self.in_head = [], b"", True

    def on_header(self, name, value):
        if self.in_head:
            self.fields.append((name.lower(), value))

    def on_headers_complete(self):
        self.in_head = False
        self.method = self.parser.get_method()

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        fields = sorted(field for field in self.fields if field[0] not in FRAMED)
        self.found.append((self.method, self.body, fields))


def llhttp_requests(raw):
    collector = Collector()
    try:
        collector.parser.feed_data(raw)
    except httptools.HttpParserError:
        pass  # anything may follow the requests
    return collector.found


def trimmed(requests):
    """Strip the values: llhttp keeps the spaces at their end."""
    return [(method, body, sorted((n, v.strip(b" \t")) for n, v in fields)) for method, body, fields in requests]


def check(raw):
    ours = seen_by_us(raw)
    if not ours:
        return
    expected = [normal(head, body) for head, body in ours]
    if all(head.keep_alive for head, _ in ours[:-1]):
        found = h11_requests(raw, len(ours))
        assert found == expected[: len(found)]
    if not any(name == b"upgrade" for head, _ in ours for name, _ in head.headers):
        # httptools ends a message at its head when it offers an upgrade; that is why it only serves as an oracle.
        kept = next((n for n, (head, _) in enumerate(ours) if not head.keep_alive), len(ours) - 1) + 1
        assert trimmed(llhttp_requests(raw))[:kept] == expected[:kept]


@settings(max_examples=examples(600))
@given(mutated())
@example(LEGAL["trailers"].replace(b"%PATH%", b"/x"))
@example(LEGAL["extensions"].replace(b"%PATH%", b"/x"))
def test_other_parsers_read_every_accepted_request_the_same_way(raw):
    check(raw)


@pytest.mark.parametrize("name", LEGAL)
def test_all_parsers_read_the_legal_corpus_the_same_way(name):
    check(LEGAL[name].replace(b"%PATH%", b"/x"))


@settings(max_examples=examples(300))
@given(mutated(), st.lists(st.integers(1, 400), max_size=4))
def test_the_points_where_a_request_is_split_make_no_difference(raw, places):
    whole = drive([raw])
    edges = sorted({0, len(raw), *(place for place in places if place < len(raw))})
    parts = [raw[start:end] for start, end in pairwise(edges)]
    assert drive(parts) == whole
    if len(raw) < 300:
        assert drive(single(raw)) == whole
