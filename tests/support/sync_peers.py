"""Clients of the sync protocol over a plain socket: the test composes every frame, and reads one at a time."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self

WAIT_S_MAX = 10  # only a hanging server makes a test wait this long
TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0

Json = dict[str, Any]
numbers = count()
run_id = os.urandom(4).hex()


class ConnectionEnded(Exception):
    """The server closed the connection; `code` is None for a connection that was cut without a close frame."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Frame(NamedTuple):
    opcode: int
    data: bytes


def fresh(word: str = "event") -> str:
    """Return a name that nothing else uses."""
    return f"{word}-{run_id}-{next(numbers)}"


def draft(partitions: str | Sequence[str], event: Json | None = None, *, id: str | None = None, **more: Any) -> Json:
    names = [partitions] if isinstance(partitions, str) else list(partitions)
    return {"id": id or fresh(), "partitions": names, "event": {"n": 1} if event is None else event, **more}


def envelope(type_: str, payload: Any, **fields: Any) -> Json:
    return {"type": type_, "payload": payload, "protocol_version": "1.0", **fields}


def encode_frame(opcode: int, data: bytes, *, fin: bool = True) -> bytes:
    """Encode a client's frame: masked, as the protocol requires, with a mask that changes nothing."""
    first = bytes([opcode | (0x80 if fin else 0)])
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return first + length + b"\0\0\0\0" + data


class Peer:
    """One connection. It reads only when the test asks for something; everything else stays in the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = ""
        self.wait_s_max: float = WAIT_S_MAX
        self.ended: ConnectionEnded | None = None
        self._said_all = False

    @classmethod
    async def dial(cls, address: tuple[str, int], path: str = "/v1/sync", *, receive_bytes: int | None = None) -> Self:
        connection = socket.socket()
        if receive_bytes is not None:  # a small window, so that the server soon notices a reader that stops
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
        reader, writer = await asyncio.open_connection(sock=connection, limit=receive_bytes or 65_536)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        async with asyncio.timeout(WAIT_S_MAX):
            head = await reader.readuntil(b"\r\n\r\n")
        peer = cls(reader, writer)
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            await peer.hang_up()
            raise ConnectionRefusedError(head.decode("latin-1"))
        return peer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.hang_up()

    async def hang_up(self) -> None:
        """Cut the connection without a close frame."""
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass  # the connection is over, whatever ended it

    # Sending

    async def send_bytes(self, raw: bytes) -> None:
        self.writer.write(raw)
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await self.writer.drain()
        except ConnectionError:
            pass  # what the server sent before it closed can still be read

    async def send_frame(self, opcode: int, data: bytes, *, fin: bool = True) -> None:
        await self.send_bytes(encode_frame(opcode, data, fin=fin))

    async def send_text(self, text: str | bytes) -> None:
        await self.send_frame(TEXT, text.encode() if isinstance(text, str) else text)

    async def send(self, type_: str, payload: Any, **fields: Any) -> None:
        await self.send_text(json.dumps(envelope(type_, payload, **fields)))

    def say_no_more(self) -> None:
        """Close our half of the connection."""
        self._said_all = True
        self.writer.write_eof()

    # Receiving

    async def next_frame(self) -> Frame:
        """Return the next data frame, and answer pings on the way. The server sends each message as one frame."""
        if self.ended is not None:
            raise self.ended
        while True:
            try:
                async with asyncio.timeout(self.wait_s_max):
                    frame = await self._read_frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.ended = ConnectionEnded(None)
                raise self.ended from None
            if frame.opcode == PING:
                await self.send_frame(PONG, frame.data)
            elif frame.opcode == CLOSE:
                self.ended = ConnectionEnded(int.from_bytes(frame.data[:2], "big"), frame.data[2:].decode())
                if not self._said_all:
                    await self.send_frame(CLOSE, frame.data)
                raise self.ended
            elif frame.opcode != PONG:
                return frame

    async def _read_frame(self) -> Frame:
        first, second = await self.reader.readexactly(2)
        assert first & 0x70 == 0, "no extension was agreed on"
        assert first & 0x80, "the server sends a message as one frame"
        assert not second & 0x80, "a server does not mask"
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
        return Frame(first & 0x0F, await self.reader.readexactly(size))

    async def next(self) -> Json:
        frame = await self.next_frame()
        assert frame.opcode == TEXT
        message = json.loads(frame.data)
        assert isinstance(message, dict)
        return message

    async def next_of(self, type_: str) -> Any:
        """Return the payload of the next message, which must be of this type."""
        message = await self.next()
        assert message["type"] == type_, message
        return message["payload"]

    async def next_error(self) -> Json:
        error = await self.next_of("error")
        assert isinstance(error["message"], str)
        assert error["message"]
        return error

    async def close_code(self) -> int | None:
        """Return the close code; the close must be the next thing that the server sends."""
        try:
            message = await self.next()
        except ConnectionEnded as end:
            return end.code
        raise AssertionError(f"the connection stayed open: {message}")

    # Whole exchanges: the reply must be the very next message

    async def connect(self, client_id: str | None = None, token: str = "") -> Json:
        self.client_id = client_id or fresh("client")
        await self.send("connect", {"token": token, "client_id": self.client_id})
        return await self.next_of("connected")

    async def submit(self, *drafts: Json) -> list[Json]:
        await self.send("submit_events", {"events": list(drafts)})
        return (await self.next_of("submit_events_result"))["results"]

    async def commit(self, *drafts: Json) -> list[int]:
        results = await self.submit(*drafts)
        assert [result["status"] for result in results] == ["committed"] * len(drafts), results
        return [result["committed_id"] for result in results]

    async def commit_many(self, partition: str, number: int, event: Json | None = None) -> list[int]:
        """Commit more events than one request may hold."""
        ids: list[int] = []
        while len(ids) < number:
            ids += await self.commit(*[draft(partition, event) for _ in range(min(100, number - len(ids)))])
        return ids

    async def ask_sync(self, partitions: Sequence[str], since: int = 0, **more: Any) -> None:
        await self.send("sync", {"partitions": list(partitions), "since_committed_id": since, **more})

    async def sync(self, partitions: Sequence[str], since: int = 0, **more: Any) -> Json:
        await self.ask_sync(partitions, since, **more)
        return await self.next_of("sync_response")

    async def subscribe(self, *partitions: str) -> Json:
        """Follow these partitions from now on, without their history."""
        page = await self.sync([], subscription_partitions=list(partitions))
        assert page["effective_subscriptions"] == sorted(partitions)
        return page

    async def next_broadcasts(self, number: int) -> list[Json]:
        return [await self.next_of("event_broadcast") for _ in range(number)]

    async def flush(self) -> list[Json]:
        """Return the messages that arrive before the answer to a heartbeat that is sent now."""
        token = fresh("heartbeat")
        await self.send("heartbeat", {}, msg_id=token)
        before: list[Json] = []
        while True:
            message = await self.next()
            if message.get("msg_id") == token:
                assert message["type"] == "heartbeat_ack"
                return before
            before.append(message)


def ids_of(events: Sequence[Json]) -> list[int]:
    return [event["committed_id"] for event in events]


class Peers:
    """The connections of one test, closed at its end."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._all: list[Peer] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._all:
            await peer.hang_up()

    async def dial(self, path: str = "/v1/sync", *, receive_bytes: int | None = None) -> Peer:
        """Open a connection that has not sent connect yet."""
        peer = await Peer.dial(self.address, path, receive_bytes=receive_bytes)
        self._all.append(peer)
        return peer

    async def join(
        self,
        *subscriptions: str,
        client_id: str | None = None,
        token: str = "",
        path: str = "/v1/sync",
        receive_bytes: int | None = None,
    ) -> Peer:
        """Return a connected client that follows these partitions."""
        peer = await self.dial(path, receive_bytes=receive_bytes)
        await peer.connect(client_id, token)
        if subscriptions:
            await peer.subscribe(*subscriptions)
        return peer
