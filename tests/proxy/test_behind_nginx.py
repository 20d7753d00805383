"""One node behind nginx, with the configuration of the guide: nginx and the server must agree where requests end.

nginx shares its connections to the server among all clients, so a request that the server parses as two, or runs
twice, affects another client.
"""

import re
from base64 import b64encode
from itertools import count
from typing import NamedTuple

import pytest

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}
WAIT_S_MAX = 3.0
HANDSHAKE = b"GET /v1/sync HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n" % b64encode(bytes(16))
ATTACK = b"DELETE /v1/stream/secret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
FENCE = b"GET /v1/stream/%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

numbers = count()


@pytest.fixture
def name() -> str:
    return f"s{next(numbers)}"


@pytest.fixture
def direct(site, connect_to):
    """A client that bypasses the proxy."""
    return connect_to(site.node)


@pytest.fixture(autouse=True)
def secret(direct):
    """Check that a stream that the proxy blocks is unchanged at the end of the test."""
    direct.put(ROOT + "secret", headers=TEXT, content=b"untouched")
    yield
    assert direct.get(ROOT + "secret").text == "untouched"


def post(name: str, body: bytes, *headers: bytes, path: bytes = b"/v1/stream/") -> bytes:
    """Return a plain append, perhaps with more headers than it should have."""
    lines = [b"POST %b%b HTTP/1.1" % (path, name.encode()), b"Host: localhost", b"Content-Type: text/plain", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def chunked(name: str, coded: bytes, *headers: bytes) -> bytes:
    lines = [b"POST /v1/stream/%b HTTP/1.1" % name.encode(), b"Host: localhost", b"Content-Type: text/plain", *headers]
    return b"\r\n".join([*lines, b"", coded])


def exchange(site, sent: bytes) -> list[int]:
    """Return the statuses that come back on one connection, until it ends or no more arrive."""
    received = b""
    with site.proxy.connect(WAIT_S_MAX) as connection:
        try:
            connection.sendall(sent)
            while piece := connection.recv(65536):
                received += piece
        except OSError:
            pass  # nginx closed the connection instead of reading everything, or waits for more
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


# Appends on connections that are then used for WebSockets


@pytest.mark.parametrize("then", [HANDSHAKE + KEY + b"\r\n", HANDSHAKE + b"\r\n"], ids=["valid", "invalid"])
def test_appends_before_handshakes_on_the_same_connection_are_stored_once(site, direct, name, then):
    expected = b""
    with site.proxy.client() as client:
        assert client.put(ROOT + name, headers=TEXT).status_code == 201
        for number in range(6):
            body = b"<%d>" % number
            assert client.post(ROOT + name, headers=TEXT, content=body).status_code == 204
            expected += body
            with site.proxy.connect(WAIT_S_MAX) as connection:
                connection.sendall(then)
                status = connection.recv(65536).split(b" ", 2)[1]
            assert status == (b"101" if KEY in then else b"400")
    assert direct.get(ROOT + name).content == expected


def test_appends_and_handshakes_sent_together_are_answered_in_order(site, direct, name):
    direct.put(ROOT + name, headers=TEXT)
    sent = b"".join(post(name, b"<%d>" % number) + HANDSHAKE + b"\r\n" for number in range(6))
    assert exchange(site, sent + FENCE % name.encode()) == [204, 400] * 6 + [200]
    assert direct.get(ROOT + name).content == b"<0><1><2><3><4><5>"


# Bytes that two parsers could read differently


class Attempt(NamedTuple):
    about: str
    sent: bytes
    body: bytes
    """The data that is stored if the append is acknowledged."""


def attempts(name: str) -> list[Attempt]:
    n = name.encode()
    tail = len(ATTACK)
    whole = b"%x\r\n%b\r\n0\r\n\r\n" % (tail, ATTACK)
    te = b"Transfer-Encoding: chunked"
    h2c = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
    websocket = (b"Connection: Upgrade", b"Upgrade: websocket", KEY.removesuffix(b"\r\n"))
    large = b"\r\n" * 200_000 + ATTACK  # sent in several parts; parsers skip empty lines before a request
    return [
        Attempt("length and chunks", chunked(name, b"0\r\n\r\n" + ATTACK, b"Content-Length: %d" % (tail + 5), te), b""),
        Attempt("chunks and length", chunked(name, b"0\r\n\r\n" + ATTACK, te, b"Content-Length: 5"), b""),
        Attempt("length, then a word", post(name, ATTACK, b"Transfer-Encoding: xchunked"), ATTACK),
        Attempt("length, then identity", post(name, ATTACK, b"Transfer-Encoding: identity"), ATTACK),
        Attempt("chunks twice", chunked(name, whole, te, te), ATTACK),
        Attempt("chunks with a space", chunked(name, whole, b"Transfer-Encoding : chunked"), ATTACK),
        Attempt("chunks with a tab", chunked(name, whole, b"Transfer-Encoding:\tchunked"), ATTACK),
        Attempt("chunks folded", chunked(name, whole, b"Transfer-Encoding:\r\n chunked"), ATTACK),
        Attempt("two equal lengths", post(name, ATTACK, b"Content-Length: %d" % tail), ATTACK),
        Attempt("two lengths", post(name, ATTACK, b"Content-Length: 0"), ATTACK),
        Attempt("a list of lengths", chunked(name, ATTACK, b"Content-Length: 0, %d" % tail), ATTACK),
        Attempt("a signed length", chunked(name, ATTACK, b"Content-Length: +%d" % tail), ATTACK),
        Attempt("a length with an underscore", post(name, ATTACK, b"Content_Length: 0"), ATTACK),
        Attempt("a nominated length", post(name, ATTACK, b"Connection: Content-Length"), ATTACK),
        Attempt("h2c", post(name, ATTACK, *h2c), ATTACK),
        Attempt("another upgrade", post(name, ATTACK, b"Connection: Upgrade", b"Upgrade: anything"), ATTACK),
        Attempt("websocket by POST", post(name, ATTACK, *websocket), ATTACK),
        Attempt("h2c to the socket", post("", ATTACK, *h2c, path=b"/v1/sync"), b""),
        Attempt("an upgrade to the socket", post("", ATTACK, b"Upgrade: anything", path=b"/v1/sync"), b""),
        Attempt("a large body to the socket", post("", large, *h2c, path=b"/v1/sync"), b""),
        Attempt("a large body with a handshake", HANDSHAKE + b"Content-Length: %d\r\n\r\n" % len(large) + large, b""),
        Attempt("a large body with an upgrade", post(name, large, *h2c), large),
        Attempt("a handshake with a body", HANDSHAKE + b"Content-Length: %d\r\n\r\n" % tail + ATTACK, b""),
        Attempt("a handshake in chunks", HANDSHAKE + te + b"\r\n\r\n" + whole, b""),
        Attempt("a good handshake with a body", HANDSHAKE + KEY + b"Content-Length: %d\r\n\r\n" % tail + ATTACK, b""),
        Attempt("a good handshake, then a request", HANDSHAKE + KEY + b"\r\n" + ATTACK, b""),
        Attempt("chunk extensions", chunked(name, b'2;a=b;c="d;e"\r\nhi\r\n0;z\r\n\r\n', te), b"hi"),
        Attempt("a long extension", chunked(name, b"2;%b\r\nhi\r\n0\r\n\r\n" % (b"x" * 8000), te), b"hi"),
        Attempt("LF in an extension", chunked(name, b"2;a\nhi\r\n0\r\n\r\n", te), b"hi"),
        Attempt("a quoted end of line", chunked(name, b'2;a="\r\nhi\r\n0\r\n\r\n"\r\n' + ATTACK, te), b"hi"),
        Attempt("trailers", chunked(name, b"2\r\nhi\r\n0\r\nStream-Closed: true\r\nX: y\r\n\r\n", te), b"hi"),
        Attempt("a trailing length", chunked(name, b"2\r\nhi\r\n0\r\nContent-Length: %d\r\n\r\n" % tail, te), b"hi"),
        Attempt("chunks by LF", chunked(name, b"2\nhi\n0\n\n", te), b"hi"),
        Attempt("a chunk without its end", chunked(name, b"2\r\nhi0\r\n\r\n", te), b"hi"),
        Attempt("a huge chunk", chunked(name, b"FFFFFFFFFFFFFFFF2\r\nhi\r\n0\r\n\r\n", te), b"hi"),
        Attempt("a negative chunk", chunked(name, b"-2\r\nhi\r\n0\r\n\r\n", te), b"hi"),
        Attempt("a chunk by 0x", chunked(name, b"0x2\r\nhi\r\n0\r\n\r\n", te), b"hi"),
        Attempt("bare LF", post(name, ATTACK).replace(b"\r\n", b"\n", 4), ATTACK),
        Attempt("bare CR", post(name, ATTACK, b"X: a\rContent-Length: 0"), ATTACK),
        Attempt("NUL", post(name, ATTACK, b"X: a\0b"), ATTACK),
        Attempt("a folded header", post(name, ATTACK, b"X: a\r\n Content-Length: 0"), ATTACK),
        Attempt("a request line in a header", post(name, ATTACK, b"X: a\n\nDELETE /v1/stream/secret HTTP/1.1"), ATTACK),
        Attempt("absolute form", post(name, ATTACK, path=b"http://elsewhere.example/v1/stream/"), ATTACK),
        Attempt("absolute form of another", post(name, ATTACK, path=b"http://secret@localhost/v1/stream/"), ATTACK),
        Attempt("an encoded line end", post("%0d%0a" + name, ATTACK), b""),
        Attempt("a fragment", post(name, ATTACK).replace(n, n + b"#/../secret", 1), ATTACK),
        Attempt("a climbing path", post("x/../" + name, ATTACK), ATTACK),
        Attempt("continue", post(name, ATTACK, b"Expect: 100-continue"), ATTACK),
        Attempt("HTTP/1.0 in chunks", chunked(name, whole, te).replace(b"HTTP/1.1", b"HTTP/1.0", 1), ATTACK),
        Attempt("HTTP/1.0 kept", post(name, ATTACK, b"Connection: keep-alive").replace(b"1.1", b"1.0", 1), ATTACK),
        Attempt("HTTP/0.9", b"GET /v1/stream/" + n + b"\r\n" + ATTACK, b""),
        Attempt("garbage after it", post(name, b"hi") + b"\x16\x03\x01 garbage\r\n\r\n", b"hi"),
    ]


@pytest.mark.parametrize("about", [attempt.about for attempt in attempts("")])
def test_the_server_ends_a_request_where_nginx_does(site, direct, name, about):
    attempt = next(attempt for attempt in attempts(name) if attempt.about == about)
    direct.put(ROOT + name, headers=TEXT, content=b"before ")
    statuses = exchange(site, attempt.sent + FENCE % name.encode())
    acknowledged = b"before " + (attempt.body if 204 in statuses else b"")
    with site.proxy.client() as client:  # on the connections that the attempt used
        for number in range(4):
            assert client.post(ROOT + name, headers=TEXT, content=b" %d" % number).status_code == 204
            acknowledged += b" %d" % number
            assert client.get(f"{ROOT}{name}?offset=-1&fresh={number}").content == acknowledged
    after = direct.head(ROOT + name)
    assert "stream-closed" not in after.headers
    assert int(after.headers["stream-next-offset"].rpartition("_")[2]) == len(acknowledged)


def test_replies_stay_with_their_requests_after_an_attack(site, direct, name):
    """An extra reply would go to the next client on that connection, and shift all replies after it."""
    direct.put(ROOT + name, headers=TEXT)
    for other in range(4):
        direct.put(f"{ROOT}{name}/{other}", headers=TEXT, content=b"content of %d" % other)
    for attempt in attempts(name):
        exchange(site, attempt.sent + FENCE % name.encode())
        with site.proxy.client() as client:
            for other in range(4):
                url = f"{ROOT}{name}/{other}?offset=-1&after={attempt.about}"
                assert client.get(url).content == b"content of %d" % other, attempt.about
