"""Connections in memory as the edge of the server sees them: bytes, in pieces of any size."""

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httptools

from mainstem.http.asgi import Message
from mainstem.testing.simulation.network import WAIT_S_MAX, ConnectionLost, Direction, Exchange, Network, WebSocket

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Wire(asyncio.Transport):
    """The server's end of a connection. The client's end is `send`, `receive` and `cut`."""

    def __init__(self, network: Network, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 4437)})
        self._loop = network.loop
        self._protocol = protocol
        self._to_client = Direction(network)
        self._to_server = Direction(network)
        self._closing = False
        self._reads = asyncio.Event()
        self._reads.set()
        protocol.connection_made(self)
        self._task = self._loop.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        """Give the server what arrives, as long as it reads."""
        while True:
            message = await self._to_server.receive()
            await self._reads.wait()
            if message is None:
                self._end()
                return
            if self._closing:
                continue
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(message["data"])

    def _end(self) -> None:
        if not self._closing:
            self._closing = True
            self._to_client.send({"type": "end"})
            self._loop.call_soon(self._protocol.connection_lost, None)

    # The side of the client

    def send(self, data: bytes) -> None:
        self._to_server.send({"data": data})

    async def receive(self) -> bytes | None:
        """Return the next bytes; None at the end of the connection."""
        message = await self._to_client.receive()
        return None if message is None or "data" not in message else message["data"]

    def cut(self) -> None:
        self._to_client.cut()
        self._to_server.cut()

    # The side of the server

    def write(self, data: Any) -> None:
        if not self._closing:
            self._to_client.send({"data": bytes(data)})

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self._end()

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._to_client.send({"type": "end"})

    def pause_reading(self) -> None:
        self._reads.clear()

    def resume_reading(self) -> None:
        self._reads.set()

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol


class _Response:
    """Collects what the parser of a response finds."""

    def __init__(self, head: bool) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.pieces: deque[bytes] = deque()
        self.has_head = False
        self.complete = False
        self._without_body = head

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.has_head = True
        self.complete = self._without_body

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.complete = True


class WireResponse:
    """The body of a response, piece by piece."""

    def __init__(self, wire: Wire, response: _Response) -> None:
        self._wire = wire
        self._response = response
        self._ended = False

    async def receive(self) -> Message:
        response = self._response
        if self._ended:
            raise ConnectionLost
        while not response.pieces and not response.complete:
            await read_more(self._wire, response)
        body = response.pieces.popleft() if response.pieces else b""
        self._ended = response.complete and not response.pieces
        return {"body": body, "more_body": not self._ended}


async def read_more(wire: Wire, response: _Response) -> None:
    data = await wire.receive()
    if data is None:
        raise ConnectionLost
    response.parser.feed_data(data)


class WireSocket:
    """A WebSocket, message by message."""

    def __init__(self, wire: Wire, rest: bytes) -> None:
        self._wire = wire
        self._rest = rest

    def send(self, message: Message) -> None:
        self._wire.send(encode_frame(TEXT, message["text"].encode()))

    async def receive(self) -> Message:
        while True:
            opcode, data = await self._read_frame()
            if opcode == TEXT:
                return {"type": "websocket.send", "text": data.decode()}
            if opcode == PING:
                self._wire.send(encode_frame(PONG, data))
            elif opcode == CLOSE:
                raise ConnectionLost

    async def _read_frame(self) -> tuple[int, bytes]:
        await self._fill(2)
        size, at = self._rest[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            await self._fill(at)
            size = int.from_bytes(self._rest[2:at], "big")
        await self._fill(at + size)
        frame, self._rest = self._rest[: at + size], self._rest[at + size :]
        return frame[0] & 0x0F, frame[at:]

    async def _fill(self, size: int) -> None:
        while len(self._rest) < size:
            data = await self._wire.receive()
            if data is None:
                raise ConnectionLost
            self._rest += data


def encode_frame(opcode: int, data: bytes) -> bytes:
    """Return a frame of a client: masked, with a mask that changes nothing."""
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + bytes(4) + data


class WireNetwork(Network):
    """Reaches the server through its edge, as real clients do."""

    def _dial(self) -> Wire:
        protocol = self.loop.accept()
        if protocol is None:
            raise ConnectionLost
        wire = Wire(self, protocol)
        self.cut_maybe(wire.cut)
        return wire

    def _send_in_pieces(self, wire: Wire, data: bytes) -> None:
        at = sorted(self.random.randrange(len(data) + 1) for _ in range(self.random.choice((0, 0, 1, 2))))
        for start, end in zip([0, *at], [*at, len(data)], strict=True):
            if start < end:
                wire.send(data[start:end])

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> AsyncIterator[tuple[int, dict[str, str], Exchange]]:
        sent = {"host": "localhost", "content-length": str(len(body)), **(headers or {})}
        wire = self._dial()
        try:
            self._send_in_pieces(wire, _encode_head(f"{method} {target} HTTP/1.1", sent) + body)
            response = _Response(method == "HEAD")
            try:
                async with asyncio.timeout(WAIT_S_MAX):
                    while not response.has_head:
                        await read_more(wire, response)
            except TimeoutError:
                raise ConnectionLost from None
            yield response.parser.get_status_code(), response.headers, WireResponse(wire, response)
        finally:
            wire.cut()

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[WebSocket]:
        headers = {
            "host": "localhost",
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-version": "13",
            "sec-websocket-key": b64encode(bytes(16)).decode(),
        }
        wire = self._dial()
        try:
            wire.send(_encode_head(f"GET {path} HTTP/1.1", headers))
            head = b""
            while b"\r\n\r\n" not in head:
                data = await wire.receive()
                if data is None:
                    raise ConnectionLost
                head += data
            if not head.startswith(b"HTTP/1.1 101"):
                raise ConnectionLost
            yield WireSocket(wire, head.partition(b"\r\n\r\n")[2])
        finally:
            wire.cut()


def _encode_head(first: str, headers: Mapping[str, str]) -> bytes:
    return "".join([f"{first}\r\n", *(f"{name}: {value}\r\n" for name, value in headers.items()), "\r\n"]).encode()
