"""Several requests on one connection: each is answered, in the order in which they were sent."""

import re

import pytest

from mainstem import limits
from tests.support.plain_http import connect, exchange, head, post, receive, send_all, statuses

TEXT = {"content-type": "text/plain"}


def get(target, *lines):
    return head(b"GET", target.encode(), *lines)


def test_pipelined_requests_are_answered_in_order(client, server, text_stream):
    raw = b"".join(
        [
            post(text_stream, b"a"),
            post(text_stream, b"b"),
            get(text_stream),
            post(text_stream, b"", b"Stream-Closed: nonsense"),
            post(text_stream + "?x", b"c"),
            get(text_stream),
            post(text_stream, b"d"),
            head(b"DELETE", text_stream.encode()),
            post(text_stream, b"e"),
            get(text_stream, b"Connection: close"),
        ]
    )
    replies = send_all(server.address, raw)
    assert statuses(replies) == [204, 204, 200, 400, 204, 200, 204, 204, 404, 404]
    assert [replies.count(data) for data in (b"\r\n\r\nabHTTP", b"\r\n\r\nabcHTTP")] == [1, 1]


def test_a_request_that_arrives_byte_by_byte_is_one_request(client, server, text_stream):
    with connect(server.address) as connection:
        for byte in post(text_stream, b"hello"):
            connection.sendall(bytes([byte]))
        assert receive(connection).status == 204
    assert client.get(text_stream).content == b"hello"


@pytest.mark.parametrize("raw", [b"Connection: close", b"connection: Close"])
def test_an_append_with_connection_close_is_answered_and_the_connection_closed(client, server, text_stream, raw):
    reply = send_all(server.address, post(text_stream, b"x", raw))
    assert statuses(reply) == [204]
    assert b"connection: close" in reply.lower()
    assert client.get(text_stream).content == b"x"


def test_an_append_over_http_1_0_is_answered_and_the_connection_closed(client, server, text_stream):
    reply = send_all(server.address, post(text_stream, b"x").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert re.match(rb"HTTP/1\.[01] 204", reply)
    assert client.get(text_stream).content == b"x"


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 131_072, limits.MIB])
def test_a_body_of_any_size_is_one_append(client, server, text_stream, size):
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert exchange(server.address, post(text_stream, body)).status == 204
    with connect(server.address) as connection:  # in two parts, the second one later
        raw = post(text_stream, body)
        connection.sendall(raw[:-1])
        assert client.get("/healthz").status_code == 200
        connection.sendall(raw[-1:])
        assert receive(connection).status == 204
    assert b"".join(page_of(client, text_stream)) == body + body


def page_of(client, path):
    """Return the data of a stream, page by page."""
    start = "-1"
    while True:
        page = client.get(f"{path}?offset={start}")
        yield page.content
        start = page.headers["stream-next-offset"]
        if "stream-up-to-date" in page.headers:
            return


@pytest.mark.parametrize("body", [b"", b"hel", b"x" * 999])
def test_an_incomplete_append_whose_client_leaves_is_not_stored(client, server, text_stream, body):
    with connect(server.address) as connection:
        connection.sendall(
            head(b"POST", text_stream.encode(), b"Content-Type: text/plain", b"Content-Length: 1000") + body
        )
    assert client.post(text_stream, headers=TEXT, content=b"whole").status_code == 204
    assert client.get(text_stream).content == b"whole"


def test_a_complete_append_is_stored_even_if_its_client_has_left(client, server, text_stream):
    with connect(server.address) as connection:
        connection.sendall(post(text_stream, b"x"))
    while client.get(text_stream).content != b"x":  # returns after the append, or with the time-out of the test
        pass
