"""The WebSocket endpoint at `/v1/sync`: accepts connections, runs them, and closes them in order."""

import asyncio
from collections.abc import Collection
from typing import Any

from mainstem import limits
from mainstem.errors import SyncBadRequest
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.sync.connection import SyncConnection, VerifyTokens
from mainstem.sync.hub import Hub
from mainstem.sync.pages import PageReader
from mainstem.sync.protocol.messages import OversizeMessage
from mainstem.sync.protocol.session import CLOSED, SessionOptions
from mainstem.sync.send_queue import Flusher, SendQueue
from mainstem.sync.validation.validators import Validator


class SyncSocket:
    def __init__(
        self,
        hub: Hub,
        verify_token: VerifyTokens,
        *,
        validate: Validator | None,
        implicit_subscriptions: bool,
        uuids_only: bool = False,
    ) -> None:
        self.hub = hub
        self.verify_token = verify_token
        self.validate = validate
        self.options = SessionOptions(implicit_subscriptions, uuids_only)
        self.core_options = SessionOptions(implicit_subscriptions=True, uuids_only=uuids_only)
        self.pages = PageReader(hub.log)
        self._open: dict[int, SyncConnection] = {}
        """By the numbers of their sessions, the oldest first."""
        self._flusher = Flusher()
        metrics = hub.log.metrics
        metrics.sync_sessions.read_with(lambda: len(self._open))
        metrics.outbox_bytes.read_with(lambda: sum([connection.send_queue.size for connection in self._open.values()]))

    def release(self) -> None:
        """Close every connection, because the server is shutting down."""
        for connection in self._open.values():
            connection.apply(connection.session.shut_down())

    def connections(self) -> Collection[SyncConnection]:
        """Return the open connections, the oldest first."""
        return self._open.values()

    def disconnect(self, number: int) -> bool:
        """Close the connection with this number for an administrator, and return whether there was one."""
        connection = self._open.get(number)
        if connection is None:
            return False
        connection.apply(connection.session.expel())
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, core: bool) -> None:
        await receive()
        if len(self._open) >= limits.SYNC_CONNECTIONS_MAX:
            await send({"type": "websocket.close", "code": 1013, "reason": "the server has too many sync connections"})
            return
        await send({"type": "websocket.accept"})
        send_queue = SendQueue(send, scope.get("extensions", {}).get("mainstem.frames"), self._flusher)
        connection = SyncConnection(
            self.hub,
            self.pages,
            self.verify_token,
            send_queue,
            validate=self.validate,
            options=self.core_options if core else self.options,
            address=scope["client"][0] if scope.get("client") else None,
        )
        self._open[connection.session.number] = connection
        writing = asyncio.create_task(send_queue.run())
        reading = asyncio.create_task(self._read(connection, receive))
        watching = asyncio.create_task(self._watch_deadlines(connection))
        try:
            ends: set[asyncio.Future[Any]] = {reading, connection.closing, writing}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if connection.closing.done() and not writing.done():
                await self._close(connection, send)
        finally:
            del self._open[connection.session.number]
            connection.close()
            for task in (reading, writing, watching):
                task.cancel()
            await asyncio.gather(reading, writing, watching, return_exceptions=True)

    async def _read(self, connection: SyncConnection, receive: Receive) -> None:
        taken = size = 0
        while True:
            await connection.ready()
            # If many messages have already arrived, nothing below yields; other connections must get their turn.
            if taken >= limits.SYNC_MESSAGES_AT_ONCE or size >= limits.SYNC_INLINE_BYTES_MAX:
                taken = size = 0
                await asyncio.sleep(0)
            message = await receive()
            taken += 1
            if message["type"] == "websocket.disconnect":
                return
            if connection.session.state is CLOSED:
                continue
            text = message.get("text")
            size += len(text or message.get("bytes") or b"")
            if text is not None:
                await connection.receive(text.encode())
            elif message.get("mainstem.oversize"):
                connection.refuse(OversizeMessage())
            elif message.get("mainstem.text"):
                await connection.receive(message["bytes"])
            else:
                connection.refuse(SyncBadRequest("the message is binary; send JSON in text messages"))

    async def _watch_deadlines(self, connection: SyncConnection) -> None:
        """End a connection that does not send `connect` in time, or whose token expires."""
        try:
            async with asyncio.timeout(limits.CONNECT_WAIT_S_MAX):
                await connection.connected.wait()
        except TimeoutError:
            connection.apply(connection.session.connect_timed_out(self.hub.log.clock_us()))
            return
        identity = connection.session.identity
        while identity.expires_at_s is not None:
            now_us = self.hub.log.clock_us()
            if identity.has_expired(now_us):
                connection.apply(connection.session.token_expired(now_us))
                return
            left_s = identity.expires_at_s - now_us / 1_000_000
            await asyncio.sleep(min(max(left_s, 0.01), 60))

    async def _close(self, connection: SyncConnection, send: Send) -> None:
        close = connection.closing.result()
        try:
            async with asyncio.timeout(limits.GOODBYE_S_MAX):
                await connection.finish()
                await send({"type": "websocket.close", "code": close.code, "reason": close.reason})
        except TimeoutError:
            return  # the client does not read, so the socket is closed without a close frame
