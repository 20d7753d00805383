"""A TCP proxy in front of a server, whose connections can be cut, stalled or made to lose the replies."""

import asyncio
from random import Random
from typing import Final, cast

BACKLOG_BYTES_MAX: Final = 1 << 20
"""Data that one side may send while the other side is stalled or slow."""


class Proxy:
    """Listens on one address, and connects to wherever the server is at the moment."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.address = ("127.0.0.1", 0)
        self._server: asyncio.Server | None = None
        self.clients: dict[_Client, None] = {}
        """The open connections, in the order in which they were opened."""

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for pair in list(self.clients):
            pair.cut()

    # Faults

    def choose(self, chance: Random) -> "list[_Client]":
        """Return some of the open connections, or all of them."""
        open_ = list(self.clients)
        return open_ if chance.random() < 0.3 else [pair for pair in open_ if chance.random() < 0.3]

    def cut(self, chance: Random) -> int:
        """Cut connections, and return how many."""
        chosen = self.choose(chance)
        for pair in chosen:
            pair.cut()
        return len(chosen)

    async def stall(self, chance: Random, seconds: float) -> int:
        """Pass nothing on in either direction for a while, and then everything."""
        chosen = self.choose(chance)
        for pair in chosen:
            pair.hold()
        await asyncio.sleep(seconds)
        for pair in chosen:
            pair.release()
        return len(chosen)

    async def lose_replies(self, chance: Random, seconds: float) -> int:
        """Pass requests on, but no replies, and then cut the connections."""
        chosen = self.choose(chance)
        for pair in chosen:
            pair.loses_replies = True
        await asyncio.sleep(seconds)
        for pair in chosen:
            pair.cut()
        return len(chosen)


class _End(asyncio.Protocol):
    """One end of a proxied connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting = bytearray()
        self.held = False

    def send(self, data: bytes) -> None:
        """Send data, or keep it until there is a connection that is not held."""
        if self.transport is None or self.held:
            self.waiting += data
            if len(self.waiting) > BACKLOG_BYTES_MAX and self.transport is not None:
                self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.write(data)

    def release(self) -> None:
        self.held = False
        data, self.waiting = bytes(self.waiting), bytearray()
        if data:
            self.send(data)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Client(_End):
    """The end at which a client has connected. It opens the other one."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self.proxy = proxy
        self.server = _Server(self)
        self.loses_replies = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.proxy.clients[self] = None
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            if self.proxy.target is None:
                raise ConnectionRefusedError
            await asyncio.get_running_loop().create_connection(lambda: self.server, *self.proxy.target)
        except OSError:
            self.cut()

    def data_received(self, data: bytes) -> None:
        self.server.send(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.cut()

    def hold(self) -> None:
        self.held = self.server.held = True

    def release(self) -> None:
        super().release()
        self.server.release()

    def cut(self) -> None:
        self.proxy.clients.pop(self, None)
        self.abort()
        self.server.abort()


class _Server(_End):
    """The end that is connected to the server."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.client.transport is None or self.client.transport.is_closing():
            self.abort()
        elif not self.held:
            self.release()

    def data_received(self, data: bytes) -> None:
        if not self.client.loses_replies:
            self.client.send(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.client.cut()
