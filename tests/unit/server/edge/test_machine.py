"""The state machine of a connection, without a socket: what it accepts, refuses and ignores."""

import gc
import weakref

import pytest

from mainstem import limits
from mainstem.server.edge.heads import UNKNOWN_LENGTH, Heads, RequestHead, normalise_path, parse_head
from mainstem.server.edge.machine import END_OF_REQUEST, Machine
from mainstem.server.edge.states import IllegalEvent, Reading, Write, Writing
from mainstem.testing.connection_machines import cuts, drive, single
from tests.support.hostile_requests import BODY, ILLEGAL, LEGAL, SMUGGLED

VALID = b"POST /v1/stream/a HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nok"
ERRORS = {"bad_request", "repeated_header", "headers_too_large", "expectation_failed"}


def at_path(raw):
    return raw.replace(b"%PATH%", b"/v1/stream/x")


def summary(seen):
    return [item if isinstance(item, str) else (item[0].method, item[0].path, item[1]) for item in seen]


POST = (b"POST", b"/v1/stream/x", BODY)
OK = (b"POST", b"/v1/stream/a", b"ok")


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_request_is_refused_wherever_it_is_split(name):
    raw = at_path(ILLEGAL[name])
    alone = summary(drive([raw]))
    assert len(alone) == 1
    assert alone[0] in ERRORS
    for parts in cuts(raw):
        assert summary(drive(parts)) == alone
    if len(raw) < 20_000:
        assert summary(drive(single(raw))) == alone


@pytest.mark.parametrize("name", ILLEGAL)
def test_requests_before_an_illegal_one_are_answered_and_those_after_it_are_not(name):
    raw = at_path(ILLEGAL[name])
    code = summary(drive([raw]))[0]
    assert summary(drive([VALID + raw + VALID])) == [OK, code]


@pytest.mark.parametrize("name", LEGAL)
def test_an_odd_but_legal_request_is_one_request_wherever_it_is_split(name):
    raw = at_path(LEGAL[name])
    assert summary(drive([raw])) == [POST]
    assert summary(drive(single(VALID + raw + raw + VALID))) == [OK, POST, POST, OK]
    for parts in cuts(raw + VALID):
        assert summary(drive(parts)) == [POST, OK]


@pytest.mark.parametrize("word", [b"h2c", b"websocket", b"x"])
def test_a_body_is_read_by_its_length_whatever_the_upgrade(word):
    smuggled = at_path(SMUGGLED)
    fields = b"Host: a\r\nConnection: Upgrade\r\nUpgrade: %b\r\nContent-Length: %d\r\n" % (word, len(smuggled))
    raw = b"GET / HTTP/1.1\r\n" + fields + b"\r\n" + smuggled
    assert summary(drive(single(raw + VALID))) == [(b"GET", b"/", smuggled), OK]


def handshake(*fields, line=b"GET /v1/sync HTTP/1.1"):
    return parse_head(b"\r\n".join([line, b"Host: a", *fields]))


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ((b"Connection: Upgrade", b"Upgrade: websocket"), True),
        ((b"connection: keep-alive, UPGRADE", b"upgrade: WebSocket"), True),
        ((b"Connection: keep-alive", b"Connection: Upgrade", b"Upgrade: h2c", b"Upgrade: websocket"), True),
        ((b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 0"), True),
        ((b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 1"), False),
        ((b"Connection: Upgrade", b"Upgrade: websocket", b"Transfer-Encoding: chunked"), False),
        ((b"Connection: Upgrade", b"Upgrade: h2c"), False),
        ((b"Connection: Upgrade", b"Upgrade: websockets"), False),
        ((b"Upgrade: websocket",), False),
        ((b"Connection: Upgrade",), False),
    ],
)
def test_only_a_get_without_a_body_asks_for_a_websocket(fields, asks):
    assert handshake(*fields).websocket is asks
    assert handshake(*fields, line=b"POST /v1/sync HTTP/1.1").websocket is False
    if b"Transfer-Encoding: chunked" not in fields:
        assert handshake(*fields, line=b"GET /v1/sync HTTP/1.0").websocket is False


@pytest.mark.parametrize(
    ("line", "fields", "keeps"),
    [
        (b"GET / HTTP/1.1", (), True),
        (b"GET / HTTP/1.1", (b"Connection: keep-alive",), True),
        (b"GET / HTTP/1.1", (b"Connection: close",), False),
        (b"GET / HTTP/1.1", (b"Connection: x, Close",), False),
        (b"GET / HTTP/1.1", (b"Connection: x", b"Connection: close"), False),
        (b"GET / HTTP/1.0", (), False),
        (b"GET / HTTP/1.0", (b"Connection: keep-alive",), False),
    ],
)
def test_which_requests_keep_the_connection_open(line, fields, keeps):
    assert handshake(*fields, line=line).keep_alive is keeps


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        (b"/v1/stream/%5F_ds/x", b"/v1/stream/__ds/x"),
        (b"/v1/stream/%5f%5F%64s", b"/v1/stream/__ds"),
        (b"/%76%31/stream/a%2Fb", b"/v1/stream/a%2Fb"),
        (b"/a%2fb%3f%23%25", b"/a%2Fb%3F%23%25"),
        (b"/%C3%A9/%c3%a9", b"/%C3%A9/%C3%A9"),
        (b"/broken%", b"/broken%"),
        (b"/broken%zz", b"/broken%zz"),
        (b"/plain~-._", b"/plain~-._"),
        (b"/%7e%2D", b"/~-"),
    ],
)
def test_a_path_has_exactly_one_spelling(path, normal):
    assert normalise_path(path) == normal
    assert parse_head(b"GET %b HTTP/1.0" % path).path == normal
    assert normalise_path(normal) == normal


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        (b"/a?b?c", b"/a", b"b?c", b"test"),
        (b"/a?", b"/a", b"", b"test"),
        (b"//a//b", b"//a//b", b"", b"test"),
        (b"http://other/a?b", b"/a", b"b", b"other"),
        (b"http://other:80", b"/", b"", b"other:80"),
        (b"HTTPS://other?b", b"/", b"b", b"other"),
    ],
)
def test_a_target_is_a_path_and_a_query(target, path, query, host):
    head = parse_head(b"GET %b HTTP/1.1\r\nHost: test" % target)
    assert (head.path, head.query) == (path, query)
    assert [value for name, value in head.headers if name == b"host"] == [host]


def test_options_may_ask_about_the_server_itself():
    assert parse_head(b"OPTIONS * HTTP/1.1\r\nHost: a").path == b"*"


def test_the_next_request_waits_until_the_cycle_is_over():
    machine = Machine(Heads())
    machine.feed(VALID + VALID)
    assert isinstance(machine.next_event(), RequestHead)
    machine.write(Write.BEGIN)
    assert [machine.next_event(), machine.next_event(), machine.next_event()] == [b"ok", END_OF_REQUEST, None]
    assert machine.buffered == len(VALID)
    machine.write(Write.HEAD)
    assert machine.next_event() is None
    machine.write(Write.END)
    assert machine.cycle_over
    assert machine.next_event() is None
    machine.start_next_cycle()
    assert isinstance(machine.next_event(), RequestHead)


def test_a_request_cannot_begin_twice():
    machine = Machine(Heads())
    machine.feed(VALID)
    machine.next_event()
    machine.write(Write.BEGIN)
    with pytest.raises(IllegalEvent):
        machine.write(Write.BEGIN)


def test_a_reply_may_be_complete_before_its_request():
    machine = Machine(Heads())
    machine.feed(VALID[:-1])
    machine.next_event()
    for event in (Write.BEGIN, Write.HEAD, Write.END):
        machine.write(event)
    assert not machine.cycle_over
    assert machine.next_event() == b"o"
    machine.feed(b"kGET")
    assert (machine.next_event(), machine.next_event()) == (b"k", END_OF_REQUEST)
    assert machine.cycle_over


def test_a_handshake_hands_over_what_follows_it():
    machine = Machine(Heads())
    machine.feed(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x80abcd")
    head = machine.next_event()
    assert isinstance(head, RequestHead)
    assert head.websocket
    machine.write(Write.BEGIN)
    machine.write(Write.SWITCH)
    assert (machine.reading, machine.writing) == (Reading.SWITCHED, Writing.SWITCHED)
    assert machine.next_event() is None
    assert machine.take_rest() == b"\x81\x80abcd"


def test_many_chunks_yield_to_the_event_loop():
    machine = Machine(Heads())
    number = 3 * limits.CHUNKS_AT_ONCE
    machine.feed(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * number + b"0\r\n\r\n"
    )
    head = machine.next_event()
    assert isinstance(head, RequestHead)
    assert head.length == UNKNOWN_LENGTH
    pieces: list[bytes] = []
    turns = 0
    while (event := machine.next_event()) is not END_OF_REQUEST:
        assert isinstance(event, bytes)
        pieces.append(event)
        turns += machine.more
    assert b"".join(pieces) == b"x" * number
    assert turns >= 5


def test_an_endless_head_is_refused_in_time():
    def lines():
        yield b"GET / HTTP/1.1\r\n"
        for _ in range(limits.REQUEST_HEAD_BYTES_MAX):
            yield b"X: yyy\r\n"

    assert drive(lines()) == ["headers_too_large"]


def test_nothing_is_read_after_the_clients_last_byte():
    machine = Machine(Heads())
    machine.feed(VALID[:-1])
    machine.next_event()
    machine.receive_eof()
    assert machine.reading is Reading.ENDED
    machine.feed(b"k")
    assert machine.next_event() is None


def test_a_connection_does_not_keep_the_head_of_its_last_request():
    """Otherwise many idle connections could each keep a head that nobody sends again."""
    known = Heads()
    machine = Machine(known)
    machine.feed(VALID)
    drop = weakref.ref(known.parse(VALID.partition(b"\r\n\r\n")[0]))
    assert isinstance(machine.next_event(), RequestHead)
    known._known.clear()
    known._by_first.clear()
    gc.collect()
    assert drop() is None


def test_the_same_head_is_recognised_wherever_it_is_split():
    requests = [
        b"POST /v1/stream/a HTTP/1.1\r\nHost: test\r\nProducer-Seq: %d\r\nContent-Length: 2\r\n\r\nok" % seq
        for seq in (1, 2, 2, 30, 4)
    ]
    raw = b"".join(requests)
    expected = [(request.removesuffix(b"\r\n\r\nok"), b"ok") for request in requests]
    for parts in [requests, [raw], single(raw), *cuts(raw)]:
        assert [item if isinstance(item, str) else (item[0].raw, item[1]) for item in drive(parts)] == expected
