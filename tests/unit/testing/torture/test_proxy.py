import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

import pytest

from mainstem.testing.torture.proxy import Proxy

WAIT_S_MAX = 30.0
CUT = (ConnectionResetError, asyncio.IncompleteReadError)


class Everything(Random):
    """Chooses every connection."""

    def random(self) -> float:
        return 0.0


class Line(NamedTuple):
    proxy: Proxy
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: asyncio.Queue[bytes]


@asynccontextmanager
async def open_line() -> AsyncIterator[Line]:
    """A connection through a proxy to a server that returns everything it receives."""
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1_000):
                received.put_nowait(data)
                writer.write(data)
        except ConnectionResetError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy()
    proxy.target = server.sockets[0].getsockname()[:2]
    await proxy.open()
    reader, writer = await asyncio.open_connection(*proxy.address)
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            writer.write(b"first")
            assert await reader.readexactly(5) == b"first"
            await received.get()
            yield Line(proxy, reader, writer, received)
    finally:
        writer.transport.abort()
        proxy.close()
        server.close()


async def test_a_cut_connection_fails_at_both_ends() -> None:
    async with open_line() as line:
        assert line.proxy.cut(Everything()) == 1
        with pytest.raises(CUT):
            await line.reader.readexactly(1)
        assert not line.proxy.clients


async def test_a_stalled_connection_delivers_everything_later() -> None:
    async with open_line() as line:
        stalled = asyncio.ensure_future(line.proxy.stall(Everything(), 0.1))
        await asyncio.sleep(0)
        line.writer.write(b"second")
        assert line.received.empty()
        assert await stalled == 1
        assert await line.reader.readexactly(6) == b"second"


async def test_a_connection_that_loses_replies_passes_requests_on() -> None:
    async with open_line() as line:
        losing = asyncio.ensure_future(line.proxy.lose_replies(Everything(), 0.2))
        await asyncio.sleep(0)
        line.writer.write(b"second")
        assert await line.received.get() == b"second"
        with pytest.raises(CUT):
            await line.reader.readexactly(1)
        await losing


async def test_without_a_server_the_proxy_cuts_every_connection() -> None:
    async with open_line() as line:
        line.proxy.target = None
        reader, writer = await asyncio.open_connection(*line.proxy.address)
        with pytest.raises(CUT):
            await reader.readexactly(1)
        writer.transport.abort()
