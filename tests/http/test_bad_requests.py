"""Malformed, absurd and unfinished requests: each gets a 4xx with a stable code, and nothing is stored."""

import socket

import pytest

from mainstem import limits
from tests.support.plain_http import connect, exchange, head, receive

TEXT = {"content-type": "text/plain"}
PRODUCER = (b"Producer-Id: p", b"Producer-Epoch: 0", b"Producer-Seq: 0")


def assert_untouched(client, path):
    about = client.head(path)
    assert about.status_code == 200
    assert about.headers["stream-next-offset"].endswith("_0000000000000000")
    assert "stream-closed" not in about.headers


# Headers


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"Content-Type: text/plain", "repeated_header"),
        (b"content-type: application/json", "repeated_header"),
        (b"Producer-Id: p", "repeated_header"),
        (b"Producer-Epoch: 0", "repeated_header"),
        (b"PRODUCER-SEQ: 1", "repeated_header"),
        (b"Host: other", "repeated_header"),
    ],
)
def test_a_repeated_header_is_refused(client, server, text_stream, line, code):
    request = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", *PRODUCER, line, b"Content-Length: 1")
    reply = exchange(server.address, request + b"x")
    assert (reply.status, reply.problem["code"]) == (400, code)
    assert_untouched(client, text_stream)


@pytest.mark.parametrize(
    "lines",
    [
        (b"Stream-Seq: 1", b"Stream-Seq: 2"),
        (b"Stream-Closed: true", b"Stream-Closed: false"),
        (b"Stream-Closed: true", b"Stream-Closed: true"),
    ],
)
def test_a_repeated_protocol_header_is_refused(client, server, text_stream, lines):
    reply = exchange(
        server.address,
        head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Content-Length: 1", *lines) + b"x",
    )
    assert (reply.status, reply.problem["code"]) == (400, "repeated_header")
    assert_untouched(client, text_stream)


@pytest.mark.parametrize("lines", [(b"Stream-TTL: 60", b"Stream-TTL: 60"), (b"Stream-Expires-At: x",) * 2])
def test_a_repeated_lifetime_is_refused(client, server, path, lines):
    reply = exchange(server.address, head(b"PUT", path.encode(), *lines))
    assert (reply.status, reply.problem["code"]) == (400, "repeated_header")
    assert client.head(path).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"stream-ttl": "-1"},
        {"stream-ttl": "+60"},
        {"stream-ttl": "060"},
        {"stream-ttl": "60.0"},
        {"stream-ttl": "6e1"},
        {"stream-ttl": "soon"},
        {"stream-ttl": ""},
        {"stream-ttl": "9" * 30},
        {"stream-ttl": "9" * 5000},
        {"stream-expires-at": "tomorrow"},
        {"stream-expires-at": "2030-01-01"},
        {"stream-expires-at": ""},
        {"stream-expires-at": "2030-02-30T00:00:00Z"},
        {"stream-ttl": "60", "stream-expires-at": "2030-01-01T00:00:00Z"},
        {"content-type": "nonsense"},
        {"content-type": "text/"},
        {"content-type": "text/" + "x" * 1000},
        {"stream-fork-offset": "0000000000000000_0000000000000000"},
    ],
)
def test_a_stream_with_a_malformed_header_is_not_created(client, path, headers):
    refused = client.put(path, headers=TEXT | headers, content=b"data")
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "invalid_header"
    assert client.head(path).status_code == 404


@pytest.mark.parametrize(
    "lines",
    [
        (b"Producer-Id: p", b"Producer-Epoch: x", b"Producer-Seq: 0"),
        (b"Producer-Id: p", b"Producer-Epoch: 0", b"Producer-Seq: -1"),
        (b"Producer-Id: p", b"Producer-Epoch: 0", b"Producer-Seq: 1.5"),
        (b"Producer-Id: p", b"Producer-Epoch: 0", b"Producer-Seq: 9007199254740992"),
        (b"Producer-Id: p", b"Producer-Epoch: " + b"9" * 5000, b"Producer-Seq: 0"),
        (b"Producer-Id:", b"Producer-Epoch: 0", b"Producer-Seq: 0"),
        (b"Producer-Id:   ", b"Producer-Epoch: 0", b"Producer-Seq: 0"),
        (b"Producer-Id: \xff\xfe", b"Producer-Epoch: 0", b"Producer-Seq: 0"),
        (b"Producer-Id: " + b"p" * 5000, b"Producer-Epoch: 0", b"Producer-Seq: 0"),
        (b"Stream-Seq: \xff",),
        (b"Stream-Seq: " + b"1" * 5000,),
    ],
)
def test_an_append_with_an_absurd_header_is_not_stored(client, server, text_stream, lines):
    request = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", *lines, b"Content-Length: 1")
    reply = exchange(server.address, request + b"x")
    assert (reply.status, reply.problem["code"]) == (400, "invalid_header")
    assert_untouched(client, text_stream)


def test_a_content_type_that_is_not_text_is_refused(client, server, text_stream, path):
    for method, target in ((b"PUT", path + "/new"), (b"POST", text_stream)):
        request = head(method, target.encode(), b"Content-Type: text/\xff", b"Content-Length: 1") + b"x"
        reply = exchange(server.address, request)
        assert (reply.status, reply.problem["code"]) == (400, "invalid_header")
    assert client.head(path + "/new").status_code == 404


def test_a_last_event_id_that_is_not_an_offset_is_refused(client, text_stream):
    refused = client.get(f"{text_stream}?offset=-1&live=sse", headers={"last-event-id": "7"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_offset")


# Paths


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/stream/",
        b"/v1/stream//",
        b"/v1/stream//a",
        b"/v1/stream/a//b",
        b"/v1/stream/..",
        b"/v1/stream/../secret",
        b"/v1/stream/a/../b",
        b"/v1/stream/a/..",
        b"/v1/stream/./a",
        b"/v1/stream/%2e%2e",
        b"/v1/stream/%2E%2E/a",
        b"/v1/stream/a/%2e%2e/b",
        b"/v1/stream/a%2F..%2Fb",
        b"/v1/stream/%2e",
        b"/v1/stream/%00",
        b"/v1/stream/a%00b",
        b"/v1/stream/a%0d%0ab",
        b"/v1/stream/%7f",
        b"/v1/stream/%ff",
        b"/v1/stream/a%c3",
        b"/v1/stream/%C0%AE%C0%AE",
        b"/v1/stream/%ED%A0%80",
        b"/v1/stream/" + b"a" * 10_240,
        b"/v1/stream/" + b"%61" * 10_240,
        b"/v1/stream/" + b"a/" * 5_120,
        b"/v1/stream/%zz",
        b"/v1/stream/a%",
    ],
)
@pytest.mark.parametrize("method", [b"PUT", b"GET"])
def test_a_path_that_names_no_stream_is_refused(server, method, target):
    reply = exchange(server.address, head(method, target, b"Content-Length: 0"))
    assert (reply.status, reply.problem["code"]) == (400, "invalid_path")


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/stream/caf\xe9",
        b"/v1/stream/\xff",
        "/v1/stream/été".encode(),
        b"/v1/stream/a b",
        b"/v1/stream/a\x00b",
        b"/v1/stream/a\tb",
        b"v1/stream/a",
        b"",
        b"*",
    ],
)
def test_an_invalid_request_line_is_refused(server, target):
    reply = exchange(server.address, head(b"PUT", target, b"Content-Length: 0"))
    assert 400 <= reply.status < 500
    assert reply.problem["code"] in {"bad_request", "not_found", "invalid_path"}


def test_the_reserved_segment_is_not_a_stream(client):
    for name in ("__ds", "__ds/x"):
        assert client.put(f"/v1/stream/{name}", headers=TEXT).status_code in {400, 404, 405}
        assert client.get(f"/v1/stream/{name}").status_code in {400, 404, 405}


# HTTP itself


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        b"FROBNICATE /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS on a plain port
        b"GET /healthz HTTP/1.1\r\nNo-Colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nBad Name: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: a\x00b\r\n\r\n",
        b"PUT /v1/stream/x HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"PUT /v1/stream/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /v1/stream/x HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"PUT /v1/stream/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"PUT /v1/stream/x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /v1/stream/x HTTP/1.1\r\nTransfer-Encoding: nonsense\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused_with_a_problem_document(server, raw):
    reply = exchange(server.address, raw)
    assert (reply.status, reply.problem["code"]) == (400, "bad_request")
    assert reply.headers["connection"] == "close"


def test_a_head_that_is_too_large_gets_431(server):
    """Sent in parts, by a client that never stops: more than a busy server reads at once."""
    with connect(server.address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        try:
            for number in range(1000):
                connection.sendall(b"X-%d: %b\r\n" % (number, b"x" * 1000))
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = receive(connection)
    assert (reply.status, reply.problem["code"]) == (431, "headers_too_large")


def test_an_unfinished_head_that_is_already_too_large_gets_431(server):
    for before in (b"", head(b"GET", b"/healthz")):
        with connect(server.address) as connection:
            if before:
                connection.sendall(before)
                assert receive(connection).status == 200
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (limits.REQUEST_HEAD_BYTES_MAX + 6_000))
            reply = receive(connection)
        assert (reply.status, reply.problem["code"]) == (431, "headers_too_large")


def test_a_head_that_is_too_large_gets_431_even_in_one_part(server):
    request = head(b"GET", b"/healthz", b"X: " + b"x" * limits.REQUEST_HEAD_BYTES_MAX)
    for _ in range(3):
        reply = exchange(server.address, request)
        assert (reply.status, reply.problem["code"]) == (431, "headers_too_large")


def test_a_request_line_that_is_too_long_gets_431(server):
    reply = exchange(server.address, head(b"GET", b"/v1/stream/" + b"a" * 2 * limits.REQUEST_HEAD_BYTES_MAX))
    assert (reply.status, reply.problem["code"]) == (431, "headers_too_large")


def test_a_long_body_does_not_make_the_next_head_too_large(client, server, text_stream):
    """With pipelining, the end of a body and the beginning of the next head may arrive together."""
    body = b"x" * (limits.REQUEST_HEAD_BYTES_MAX + 1000)
    first = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Content-Length: %d" % len(body))
    with connect(server.address) as connection:
        connection.sendall(first + body + b"GET /healthz HTTP/1.1\r\n")
        connection.sendall(b"Host: x\r\nConnection: close\r\n\r\n")
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    assert [line for line in reply.split(b"\r\n") if line.startswith(b"HTTP/1.1")] == [
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 200 OK",
    ]
    assert len(client.get(text_stream).content) == len(body)


def test_a_head_below_the_limit_is_accepted(server):
    reply = exchange(server.address, head(b"GET", b"/healthz", b"X: " + b"x" * (limits.REQUEST_HEAD_BYTES_MAX // 2)))
    assert reply.status == 200


def test_a_request_that_does_not_arrive_in_time_gets_408(client, server, text_stream, monkeypatch):
    monkeypatch.setattr(limits, "REQUEST_WAIT_S_MAX", 0.05)
    with connect(server.address) as connection:
        connection.sendall(
            head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Content-Length: 5") + b"abc"
        )
        reply = receive(connection)
    assert (reply.status, reply.problem["code"]) == (408, "request_timeout")
    assert_untouched(client, text_stream)


# Bodies


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKED = (b"Content-Type: text/plain", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize("method", [b"PUT", b"POST"])
def test_a_chunked_body_is_one_append(client, server, path, method):
    if method == b"POST":
        client.put(path, headers=TEXT)
    body = chunk(b"he") + chunk(b"l") + b"2;ext=1\r\nlo\r\n" + b"0\r\nTrailer: x\r\n\r\n"
    reply = exchange(server.address, head(method, path.encode(), *CHUNKED) + body)
    assert reply.status == (201 if method == b"PUT" else 204)
    assert client.get(path).content == b"hello"


def test_a_chunked_body_may_arrive_byte_by_byte(client, server, text_stream):
    raw = head(b"POST", text_stream.encode(), *CHUNKED) + chunk(b"hello") + b"0\r\n\r\n"
    with connect(server.address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in raw:
            connection.sendall(bytes([byte]))
        assert receive(connection).status == 204
    assert client.get(text_stream).content == b"hello"


def test_an_empty_chunked_body_is_an_empty_body(client, server, text_stream):
    reply = exchange(server.address, head(b"POST", text_stream.encode(), *CHUNKED) + b"0\r\n\r\n")
    assert (reply.status, reply.problem["code"]) == (400, "empty_body")


@pytest.mark.parametrize(
    "body",
    [
        b"xyz\r\nhello\r\n0\r\n\r\n",
        b"-1\r\nhello\r\n",
        b"5\r\nhelloworld\r\n0\r\n\r\n",
        b"5hello",
        b"\r\n\r\n",
        chunk(b"hello") + b"zz\r\n",
        b"f" * 32 + b"\r\n",
    ],
)
def test_a_malformed_chunk_is_refused_and_nothing_is_stored(client, server, text_stream, body):
    reply = exchange(server.address, head(b"POST", text_stream.encode(), *CHUNKED) + body)
    assert (reply.status, reply.problem["code"]) == (400, "bad_request")
    assert_untouched(client, text_stream)


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (CHUNKED, chunk(b"hello")),
        (CHUNKED, b"5\r\nhel"),
        (CHUNKED, b""),
        ((b"Content-Type: text/plain", b"Content-Length: 10"), b"hello"),
        ((b"Content-Type: text/plain", b"Content-Length: 10"), b""),
        ((b"Content-Type: text/plain", b"Content-Length: 100000"), b"x" * 99_999),
    ],
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_truncated_body_is_not_stored(client, server, text_stream, lines, body, reset):
    with connect(server.address) as connection:
        connection.sendall(head(b"POST", text_stream.encode(), *lines, b"Expect: 100-continue") + body)
        # The server sends 100 Continue once the application waits for the body.
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    # This append is committed after anything that the lost one could have stored.
    assert client.post(text_stream, headers=TEXT, content=b"whole").status_code == 204
    assert client.get(text_stream).content == b"whole"


def test_a_truncated_create_creates_nothing(client, server, path):
    with connect(server.address) as connection:
        connection.sendall(head(b"PUT", path.encode(), b"Content-Length: 10", b"Expect: 100-continue") + b"hello")
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
    assert client.head(path).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_over_the_limit_gets_413_with_the_limit(start_thread, connect_to, path, method):
    client = connect_to(start_thread(max_body_bytes=1000))
    if method == "POST":
        client.put(path, headers=TEXT)
    refused = client.request(method, path, headers=TEXT, content=b"x" * 1001)
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    assert refused.json()["limit_bytes"] == 1000
    chunked = client.request(method, path, headers=TEXT, content=iter([b"x" * 600, b"y" * 600]))
    assert (chunked.status_code, chunked.json()["limit_bytes"]) == (413, 1000)
    if method == "POST":
        assert_untouched(client, path)
    assert client.request(method, path, headers=TEXT, content=b"x" * 1000).status_code in {201, 204}


def test_a_far_too_large_body_gets_an_answer_before_the_connection_ends(client, text_stream):
    refused = client.post(text_stream, headers=TEXT, content=b"x" * (limits.BODY_BYTES_MAX + 8 * limits.MIB))
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    assert refused.json()["limit_bytes"] == limits.BODY_BYTES_MAX
    assert_untouched(client, text_stream)


def test_a_body_whose_declared_length_is_too_large_is_refused_before_it_is_sent(client, server, text_stream):
    declared = b"Content-Length: %d" % (limits.BODY_BYTES_MAX + 1)
    request = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", declared, b"Expect: 100-continue")
    reply = exchange(server.address, request)
    assert (reply.status, reply.problem["code"]) == (413, "body_too_large")


def test_the_connection_still_works_after_a_refusal(client, server, text_stream):
    with connect(server.address) as connection:
        bad = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Producer-Id: p", b"Content-Length: 3")
        connection.sendall(bad + b"abc")
        assert receive(connection).status == 400
        connection.sendall(head(b"GET", b"/healthz"))
        assert receive(connection).status == 200
