"""A connection's way out: messages leave in order, and many that are ready together leave in one write."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from mainstem import limits
from mainstem.sync.hub import Outgoing

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class FrameWriter(Protocol):
    """What `mainstem serve` offers beyond ASGI: whole frames to the socket, and a flag while it takes no more."""

    writable: asyncio.Event

    def write_frames(self, data: bytes) -> None: ...


class Outbox:
    def __init__(self, send: Send, writer: FrameWriter | None) -> None:
        self._send = send
        self._writer = writer
        self._items: list[Outgoing] = []
        self._size = 0
        self._ready = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def is_full(self) -> bool:
        return self._size > limits.OUTBOX_BYTES_MAX

    def put(self, message: Outgoing) -> None:
        self._items.append(message)
        self._size += len(message.payload)
        self._empty.clear()
        self._ready.set()

    async def drained(self) -> None:
        """When everything has been handed to the socket."""
        await self._empty.wait()

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            items, self._items = self._items, []
            await self._write(items)
            self._size -= sum(len(item.payload) for item in items)
            if not self._items:
                self._empty.set()

    async def _write(self, items: list[Outgoing]) -> None:
        if self._writer is None:
            for item in items:
                await self._send({"type": "websocket.send", "text": item.payload.decode()})
            return
        self._writer.write_frames(b"".join([item.frame for item in items]))
        await self._writer.writable.wait()
