import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.torture import connections
from mainstem.testing.torture.connections import Connection, Reply, Unanswered


@asynccontextmanager
async def open_connection(answer: bytes, *, close: bool = True) -> AsyncIterator[Connection]:
    """A connection to a server that answers every request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if not close:
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = await Connection.open(server.sockets[0].getsockname()[:2])
    try:
        yield connection
    finally:
        connection.close()
        server.close()


async def test_a_whole_reply() -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        b"Stream-Next-Offset: 0000000000000001_0000000000000002\r\nStream-Closed: true\r\n\r\n[]"
    )
    async with open_connection(answer) as connection:
        reply = await connection.request("GET", "/")
    assert (reply.status, reply.body, reply.refusal) == (200, b"[]", None)
    assert reply.next_offset == Offset(1, 2)
    assert reply.says("stream-closed")
    assert not reply.says("stream-up-to-date")


async def test_a_reply_to_head_has_no_body() -> None:
    async with open_connection(b"HTTP/1.1 404 Not Found\r\nContent-Length: 90\r\n\r\n", close=False) as connection:
        assert (await connection.request("HEAD", "/")).refusal == "stream_not_found"


async def test_pieces_of_a_stream() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with open_connection(answer) as connection:
        assert b"".join([reply.body async for reply in connection.stream("/")]) == b"abc"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n["], ids=["none", "half"])
async def test_a_connection_that_ends_early_leaves_the_outcome_unknown(answer: bytes) -> None:
    async with open_connection(answer) as connection:
        with pytest.raises(Unanswered):
            await connection.request("GET", "/")


async def test_a_reply_that_takes_too_long_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S_MAX", 0.05)
    async with open_connection(b"", close=False) as connection:
        with pytest.raises(Unanswered):
            await connection.request("GET", "/")


def test_an_error_of_the_server_leaves_the_outcome_unknown() -> None:
    reply = Reply()
    reply.status, reply.body = 503, b'{"code": "store_unreachable"}'
    with pytest.raises(Unanswered, match="store_unreachable"):
        _ = reply.refusal
    reply.status, reply.body = 409, b'{"code": "stream_closed"}'
    assert reply.refusal == "stream_closed"
