"""The WebSocket binding at `/v1/sync`: accepts connections, runs them, and closes them in an orderly way."""

import asyncio
from typing import Any

from mainstem import limits
from mainstem.errors import SyncAuthFailed, SyncBadRequest
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.sync.connection import Identify, SyncConnection
from mainstem.sync.hub import Hub
from mainstem.sync.outbox import Outbox
from mainstem.sync.pages import SyncPages
from mainstem.sync.protocol.messages import OversizeMessage
from mainstem.sync.protocol.session import State
from mainstem.sync.validation.validators import Validator


class SyncSocket:
    def __init__(
        self, hub: Hub, identify: Identify, *, validate: Validator | None, implicit: bool, uuids: bool = False
    ) -> None:
        self.hub = hub
        self.identify = identify
        self.validate = validate
        self.implicit = implicit
        self.uuids = uuids
        self.pages = SyncPages(hub.log)
        self._open: set[SyncConnection] = set()

    def release(self) -> None:
        """Shutting down: end every connection."""
        for connection in self._open:
            connection.close_soon(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, core: bool) -> None:
        await receive()
        if len(self._open) >= limits.SYNC_CONNECTIONS_MAX:
            await send({"type": "websocket.close", "code": 1013, "reason": "too many connections"})
            return
        await send({"type": "websocket.accept"})
        outbox = Outbox(send, scope.get("extensions", {}).get("mainstem.frames"))
        connection = SyncConnection(
            self.hub,
            self.pages,
            self.identify,
            outbox,
            implicit=core or self.implicit,
            validate=self.validate,
            uuids=self.uuids,
        )
        self._open.add(connection)
        writing = asyncio.create_task(outbox.run())
        reading = asyncio.create_task(self._read(connection, receive))
        watching = asyncio.create_task(self._watch_times(connection))
        try:
            ends: set[asyncio.Future[Any]] = {reading, connection.closing, writing}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if connection.closing.done() and not writing.done():
                await self._say_goodbye(connection, send)
        finally:
            self._open.discard(connection)
            connection.close()
            for task in (reading, writing, watching):
                task.cancel()
            await asyncio.gather(reading, writing, watching, return_exceptions=True)

    async def _read(self, connection: SyncConnection, receive: Receive) -> None:
        taken = size = 0
        while True:
            await connection.ready()
            # Many messages may be there already, and then nothing below waits: the others must have their turn too.
            if taken >= limits.SYNC_MESSAGES_AT_ONCE or size >= limits.SYNC_INLINE_BYTES_MAX:
                taken = size = 0
                await asyncio.sleep(0)
            message = await receive()
            taken += 1
            if message["type"] == "websocket.disconnect":
                return
            if connection.state is State.CLOSED:
                continue
            text = message.get("text")
            size += len(text or message.get("bytes") or b"")
            if text is not None:
                await connection.receive(text.encode())
            elif message.get("mainstem.oversize"):
                connection.end(OversizeMessage(f"a message is at most {limits.SYNC_MESSAGE_BYTES_MAX} bytes"))
            elif message.get("mainstem.text"):
                await connection.receive(message["bytes"])
            else:
                connection.refuse(SyncBadRequest("messages are text, not binary"))

    async def _watch_times(self, connection: SyncConnection) -> None:
        """Nobody holds a connection open without saying who they are, or longer than their token lasts."""
        try:
            async with asyncio.timeout(limits.CONNECT_WAIT_S_MAX):
                await connection.connected.wait()
        except TimeoutError:
            connection.end(SyncAuthFailed("no connect message came in time"))
            return
        while connection.identity.expires_at_s is not None:
            now_us = self.hub.log.clock_us()
            if connection.identity.has_expired(now_us):
                connection.end(SyncAuthFailed("the token has expired"))
                return
            left_s = connection.identity.expires_at_s - now_us / 1_000_000
            await asyncio.sleep(min(max(left_s, 0.01), 60))

    async def _say_goodbye(self, connection: SyncConnection, send: Send) -> None:
        error = connection.closing.result()
        try:
            async with asyncio.timeout(limits.GOODBYE_S_MAX):
                code = await connection.finish(error)
                await send({"type": "websocket.close", "code": code, "reason": error.code if error else ""})
        except TimeoutError:
            return  # it does not read: the socket is closed over its head
