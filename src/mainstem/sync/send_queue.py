"""The queue of outgoing messages of a connection. They are sent in order, and all that are ready in one write."""

import asyncio
import logging
from typing import Protocol

from mainstem import limits
from mainstem.http import asgi
from mainstem.sync.protocol.effects import Send

logger = logging.getLogger(__name__)


class FrameWriter(Protocol):
    """An extension that `mainstem serve` offers beyond ASGI: it writes whole frames, and `writable` tells when the
    socket accepts more."""

    writable: asyncio.Event

    def write_frames(self, data: bytes) -> None: ...


class Flusher:
    """Flushes queues at the end of the turn of the event loop, all in one callback: a broadcast fills many at once."""

    def __init__(self) -> None:
        self._queues: list[SendQueue] = []

    def add(self, queue: "SendQueue") -> None:
        if not self._queues:
            asyncio.get_running_loop().call_soon(self._flush)
        self._queues.append(queue)

    def _flush(self) -> None:
        queues = self._queues
        now, self._queues = queues[: limits.FAN_OUT_AT_ONCE], queues[limits.FAN_OUT_AT_ONCE :]
        if self._queues:  # other work gets its turn first
            asyncio.get_running_loop().call_soon(self._flush)
        for queue in now:
            try:
                queue.flush()
            except Exception:  # the other queues belong to other clients
                logger.exception("an unexpected error occurred while messages were sent to a sync connection")


class SendQueue:
    """With a frame writer, the messages of one turn of the event loop are written together at its end, without waking
    the task of `run`."""

    __slots__ = ("_empty", "_flusher", "_flushing", "_items", "_ready", "_send", "_size", "_writer")

    def __init__(self, send: asgi.Send, writer: FrameWriter | None, flusher: Flusher) -> None:
        self._send = send
        self._writer = writer
        self._flusher = flusher
        self._items: list[Send] = []
        self._size = 0
        self._flushing = False
        self._ready = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def size(self) -> int:
        """How many bytes wait to be written to the socket."""
        return self._size

    @property
    def is_full(self) -> bool:
        return self._size > limits.SEND_QUEUE_BYTES_MAX

    def put(self, message: Send) -> bool:
        """Add a message and return whether the queue is now full."""
        self._items.append(message)
        size = self._size = self._size + len(message.payload)
        if not self._flushing:
            self._empty.clear()
            writer = self._writer
            if writer is not None and writer.writable.is_set():
                self._flushing = True
                self._flusher.add(self)
            else:
                self._ready.set()
        return size > limits.SEND_QUEUE_BYTES_MAX

    def flush(self) -> None:
        """Write all messages, as the flusher does."""
        assert self._writer is not None
        self._flushing = False
        self._size = 0
        items = self._items
        frames = items[0].frame if len(items) == 1 else b"".join([item.frame for item in items])
        items.clear()
        self._writer.write_frames(frames)
        self._empty.set()

    async def drained(self) -> None:
        """Return when everything has been handed to the socket and the socket accepts more."""
        await self._empty.wait()
        if self._writer is not None:
            await self._writer.writable.wait()

    async def run(self) -> None:
        """Send the messages that could not be written immediately, until cancelled."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            if self._writer is not None:
                await self._writer.writable.wait()
                if self._items and not self._flushing:
                    self.flush()
            else:
                await self._send_all()

    async def _send_all(self) -> None:
        while self._items:
            items, self._items = self._items, []
            for item in items:
                await self._send({"type": "websocket.send", "text": item.payload.decode()})
                self._size -= len(item.payload)
        self._empty.set()
