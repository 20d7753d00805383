"""A crowd of clients that hold connections and wait: half of what a server with many users is made of."""

import asyncio
from random import Random

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mainstem.sync.protocol.messages import VERSION
from mainstem.testing.torture.nodes import Node

STREAMS = 100
"""Streams without any data, which the crowd follows."""
RETURN_S_MAX = 15.0
"""How soon a client connects, and connects again: a crowd does not come back at the same moment."""


class Crowd:
    """Of five clients, three follow a stream by SSE, and two are connected for the sync protocol."""

    def __init__(self, node: Node, clients: int, seed: int) -> None:
        self.node = node
        self.clients = clients
        self.connected = 0
        self._chance = Random(f"{seed} crowd")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.clients):
                group.create_task(self._stay(number))

    async def _stay(self, number: int) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0, RETURN_S_MAX))
            if self.node.address is None:
                continue
            try:
                if number % 5 < 3:
                    await self._follow(*self.node.address, f"quiet/{number % STREAMS}")
                else:
                    await self._sync(*self.node.address, number)
            except (OSError, TimeoutError, WebSocketException):
                pass  # the server was restarted

    async def _follow(self, host: str, port: int, path: str) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET /v1/stream/{path}?offset=now&live=sse HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            if not (await reader.readline()).startswith(b"HTTP/1.1 200"):
                return  # the stream does not exist yet
            self.connected += 1
            try:
                while await reader.read(65_536):
                    pass
            finally:
                self.connected -= 1
        finally:
            writer.transport.abort()

    async def _sync(self, host: str, port: int, number: int) -> None:
        socket = await connect(
            f"ws://{host}:{port}/v1/sync", proxy=None, ping_interval=None, compression=None, close_timeout=0.1
        )
        try:
            await socket.send(_encode("connect", {"client_id": f"crowd{number}", "token": ""}))
            await socket.send(_encode("sync", {"partitions": ["quiet"], "subscription_partitions": ["quiet"]}))
            self.connected += 1
            try:
                async for _ in socket:
                    pass
            finally:
                self.connected -= 1
        finally:
            socket.transport.abort()


def _encode(type_: str, payload: object) -> str:
    return msgspec.json.encode({"type": type_, "payload": payload, "protocol_version": VERSION}).decode()
