"""The corpus of hostile requests against a real server: the stream holds exactly what was acknowledged."""

import pytest

from tests.support.hostile_requests import BODY, ILLEGAL, LEGAL
from tests.support.plain_http import connect, head, post, receive_all, statuses

LAST = b"Connection: close"
REFUSALS = {400, 417, 431}


@pytest.fixture
def stream(client, path):
    assert client.put(f"/v1/stream/{path}", headers={"content-type": "text/plain"}).status_code == 201
    return f"/v1/stream/{path}"


def send(server, raw):
    """Return all bytes that come back; the server may close before everything is sent."""
    with connect(server.address) as connection:
        try:
            connection.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return receive_all(connection)


def content(client, stream):
    """Return the content after a final write, which is committed after everything before it."""
    assert client.post(stream, headers={"content-type": "text/plain"}, content=b"|").status_code == 204
    return client.get(stream).content.removesuffix(b"|")


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_request_stores_nothing(client, server, stream, name):
    raw = ILLEGAL[name].replace(b"%PATH%", stream.encode())
    assert set(statuses(send(server, raw))) <= REFUSALS
    replies = statuses(send(server, post(stream, b"before") + raw + post(stream, b"after")))
    assert replies[0] == 204
    assert len(replies) == 2
    assert replies[1] in REFUSALS
    assert content(client, stream) == b"before"


@pytest.mark.parametrize("name", LEGAL)
def test_an_odd_but_legal_request_is_stored_once(client, server, stream, name):
    raw = LEGAL[name].replace(b"%PATH%", stream.encode())
    once = raw.replace(b"\r\nContent-Type", b"\r\nConnection: close\r\nContent-Type", 1)
    once = once.replace(b"\r\nCONTENT-TYPE", b"\r\nConnection: close\r\nCONTENT-TYPE", 1)
    assert statuses(send(server, once).replace(b"HTTP/1.0", b"HTTP/1.1")) == [204]
    replies = send(server, post(stream, b"<") + once)
    assert statuses(replies) == [204, 204]
    assert content(client, stream) == BODY + b"<" + BODY


@pytest.mark.parametrize("name", ["plain", "chunked", "trailers", "an offer of h2c", "tiny chunks"])
def test_a_request_that_arrives_byte_by_byte_is_stored_once(client, server, stream, name):
    raw = LEGAL[name].replace(b"%PATH%", stream.encode()) + head(b"GET", b"/healthz", LAST)
    with connect(server.address) as connection:
        for byte in raw:
            connection.sendall(bytes([byte]))
        assert statuses(receive_all(connection)) == [204, 200]
    assert content(client, stream) == BODY


def test_a_path_has_one_name_in_every_spelling(client, server, stream):
    """The reserved paths can be neither reached nor bypassed with another spelling."""
    for spelling in (
        b"/v1/stream/%5F_ds/jwks.json",
        b"/v1/stream/__ds/jwks.json",
        b"/%76%31/stream/%5f%5Fds/jwks.json",
    ):
        reply = send(server, head(b"GET", spelling, LAST))
        assert statuses(reply) == [200]
        assert b'"keys"' in reply
    raw = post("/v1/stream/%5F_ds/x", b"y", LAST)
    assert statuses(send(server, raw))[0] in (400, 404, 405)


def test_replies_come_in_the_order_of_their_requests(client, server, stream):
    """On the fast path and the general one, errors and successes, many at once."""
    requests = [
        (post(stream, b"1"), 204),
        (head(b"GET", stream.encode() + b"?offset=bad"), 400),
        (post(stream, b"x" * 100_000), 204),
        (head(b"HEAD", stream.encode()), 200),
        (post(stream, b""), 400),
        (head(b"PUT", stream.encode() + b"-other"), 201),
        (head(b"OPTIONS", stream.encode()), 204),
        (post(stream + "-none", b"2"), 404),
    ] * 30

    raw = b"".join(request for request, _ in requests) + head(b"GET", b"/healthz", LAST)
    expected = [200 if status == 201 and number > 8 else status for number, (_, status) in enumerate(requests)]
    assert statuses(send(server, raw)) == [*expected, 200]
