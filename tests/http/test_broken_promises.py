"""Every way in which an earlier HTTP edge of this server broke a promise, checked by what the stream then holds."""

import re

import pytest

from tests.support.plain_http import connect, head, post, receive, receive_all, send_all, statuses

HANDSHAKE = (b"Connection: Upgrade", b"Upgrade: websocket")
KEY = (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13")


def append(client, path, body):
    """Append data that is committed after everything before it."""
    assert client.post(path, headers={"content-type": "text/plain"}, content=body).status_code == 204


def content(client, path):
    return client.get(path).content


@pytest.mark.parametrize("lines", [HANDSHAKE, HANDSHAKE + KEY], ids=["without a key", "valid"])
@pytest.mark.parametrize("target", [b"/v1/sync", b"/v1/stream/elsewhere"])
def test_a_handshake_after_an_append_does_not_append_again(client, server, text_stream, lines, target):
    with connect(server.address) as connection:
        connection.sendall(post(text_stream, b"ONE"))
        assert receive(connection).status == 204
        connection.sendall(head(b"GET", target, *lines))
        connection.recv(1)
    append(client, text_stream, b"TWO")
    assert content(client, text_stream) == b"ONETWO"


def test_a_head_over_the_limit_after_an_append_does_not_append_again(client, server, text_stream):
    with connect(server.address) as connection:
        connection.sendall(post(text_stream, b"ONE"))
        assert receive(connection).status == 204
        connection.sendall(head(b"GET", b"/", b"X: " + b"x" * 70_000))
        assert receive(connection).status == 431
    append(client, text_stream, b"TWO")
    assert content(client, text_stream) == b"ONETWO"


@pytest.mark.parametrize("word", [b"h2c", b"websocket", b"anything"])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize("target", [b"/v1/sync", b"/", b"/v1/stream/other"])
def test_a_body_is_never_run_as_a_request(client, server, text_stream, word, method, target):
    smuggled = head(b"DELETE", text_stream.encode())
    lines = (b"Connection: Upgrade", b"Upgrade: " + word, b"Content-Length: %d" % len(smuggled))
    with connect(server.address) as connection:
        connection.sendall(head(method, target, *lines))
        client.get("/healthz")  # by then the head has arrived alone
        connection.sendall(smuggled + head(b"GET", b"/healthz", b"Connection: close"))
        replies = receive_all(connection)
    assert len(statuses(replies)) <= 2
    assert content(client, text_stream) == b""


def test_a_body_sent_with_an_offer_of_http_2_is_stored_or_refused(client, server, path):
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    lines = (b"Content-Type: text/plain", b"Content-Length: 9", *offer, b"Connection: close")
    replies = send_all(server.address, head(b"PUT", path.encode(), *lines) + b"IMPORTANT")
    stored = content(client, path) if client.head(path).status_code == 200 else None
    assert (statuses(replies)[0], stored) in ((201, b"IMPORTANT"), (400, None))


@pytest.mark.parametrize("line", [b"Stream-Closed: true", b"Authorization: Bearer x", b"Producer-Id: p"])
def test_a_trailer_is_not_a_header(client, server, text_stream, line):
    chunked = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    with connect(server.address) as connection:
        connection.sendall(chunked + b"1\r\nx\r\n0\r\n" + line + b"\r\n\r\n")
        assert receive(connection).status == 204
    assert "stream-closed" not in client.head(text_stream).headers
    assert content(client, text_stream) == b"x"


def test_endless_trailers_are_refused(client, server, text_stream):
    chunked = head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    with connect(server.address) as connection:
        connection.sendall(chunked + b"1\r\nx\r\n0\r\n")
        try:
            for number in range(100_000):
                connection.sendall(b"X-Trailer-%d: %b\r\n" % (number, b"y" * 400))
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            pytest.fail("the server accepted 40 MB of trailers")
    assert content(client, text_stream) == b""


@pytest.mark.parametrize(
    "garbage", [b"\x00\x01garbage\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n x\r\n\r\n"]
)
@pytest.mark.parametrize("writes", [1, 3])
def test_garbage_after_a_write_does_not_hide_its_reply(client, server, text_stream, garbage, writes):
    replies = send_all(server.address, post(text_stream, b"x") * writes + garbage)
    assert statuses(replies) == [204] * writes + [400]
    assert content(client, text_stream) == b"x" * writes


def test_requests_whose_replies_nobody_reads_do_not_pile_up(client, server, text_stream):
    """A megabyte of pipelined requests whose replies nobody reads: the server stops reading and does not queue them."""
    request = head(b"GET", b"/healthz")
    connection = connect(server.address, receive_bytes=4096)
    connection.settimeout(2.0)
    sent = 0
    with connection:
        try:
            while sent < 64 << 20:
                sent += connection.send(request * 1000)
        except TimeoutError:
            pass  # the server no longer reads
        except (BrokenPipeError, ConnectionResetError):
            pass  # or has closed the connection
    assert sent < 32 << 20
    assert re.match(rb"HTTP/1.1 200", send_all(server.address, head(b"GET", b"/healthz", b"Connection: close")))
