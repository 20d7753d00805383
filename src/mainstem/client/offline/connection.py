"""The thin shell around a session: it reads and writes one WebSocket, and notices silence."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from mainstem import limits
from mainstem.client.offline.core.effects import Effects, Load, Pause, Report, Save, Send
from mainstem.client.offline.core.errors import ConnectionLost, Silence
from mainstem.client.offline.core.records import Draft, StoreUpdate
from mainstem.client.offline.core.session import Session
from mainstem.client.sync_protocol.errors import ProtocolFault, SyncClientError
from mainstem.client.sync_protocol.messages import encode_message

SessionCall = Callable[[Session], Effects]


class Owner(Protocol):
    """What a connection needs from the client that owns it."""

    async def save(self, updates: Sequence[StoreUpdate]) -> None: ...
    async def load(self, items_max: int, bytes_max: int) -> list[Draft]: ...
    def report(self, error: SyncClientError) -> None: ...
    def update_status(self, session: Session) -> None: ...


class Connection:
    """Runs one session until it ends, which is always with an error or a cancellation."""

    def __init__(self, socket: ClientConnection, session: Session, owner: Owner) -> None:
        self.session = session
        self._socket = socket
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._texts: deque[bytes] = deque()
        self._calls: deque[SessionCall] = deque()
        self._will_send_drafts = False
        self._wakeup = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._last_message_at = self._loop.time()
        self._timers: set[asyncio.TimerHandle] = set()

    def send_drafts(self) -> None:
        """Make the session send the drafts that were added to the store."""
        if not self._will_send_drafts:
            self._will_send_drafts = True
            self.call_soon(lambda session: session.send_drafts())

    def call_soon(self, call: SessionCall) -> None:
        """Call the session as soon as it has finished its current work."""
        self._calls.append(call)
        self._wakeup.set()

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            await self._perform(self.session.open())
            while True:
                await self._wait(reading)
                await self._perform(*await self._process_input())
        except ConnectionClosed as error:
            raise _explain_close(error) from error
        finally:
            for timer in self._timers:
                timer.cancel()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    # Input

    async def _read(self) -> None:
        while True:
            await self._has_room.wait()
            message = await self._socket.recv(decode=False)
            self._last_message_at = self._loop.time()
            self._texts.append(message if isinstance(message, bytes) else message.encode())
            if len(self._texts) >= limits.OFFLINE_INBOX_MAX:
                self._has_room.clear()  # stop reading, so that TCP slows the server down
            self._wakeup.set()

    async def _wait(self, reading: "asyncio.Task[None]") -> None:
        """Wait until there is something to do. Send a heartbeat if the server is silent."""
        while not (self._texts or self._calls):
            if reading.done():
                reading.result()
            self._wakeup.clear()
            waking = asyncio.ensure_future(self._wakeup.wait())
            try:
                await asyncio.wait(
                    {waking, reading}, timeout=limits.OFFLINE_HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                waking.cancel()
            if self._texts or self._calls or reading.done():
                continue
            quiet_s = self._loop.time() - self._last_message_at
            if quiet_s >= limits.OFFLINE_SILENCE_S_MAX:
                raise Silence(f"the server sent nothing for {quiet_s:.0f} s")
            if quiet_s >= limits.OFFLINE_HEARTBEAT_S:
                await self._send(encode_message("heartbeat", {}))

    async def _process_input(self) -> tuple[Effects, SyncClientError | None]:
        """Return the effects of all waiting calls and messages, and the error that ends the session, if there is one.

        They are collected so that one transaction stores them.
        """
        calls, self._calls = self._calls, deque()
        self._will_send_drafts = False
        texts, self._texts = self._texts, deque()
        self._has_room.set()
        effects: Effects = []
        try:
            for call in calls:
                effects += call(self.session)
            for text in texts:
                if len(text) > limits.PARSE_INLINE_BYTES_MAX:
                    effects += await asyncio.to_thread(self.session.receive, text)
                else:
                    effects += self.session.receive(text)
        except SyncClientError as error:
            return effects, error
        return effects, None

    # Output

    async def _perform(self, effects: Effects, end: SyncClientError | None = None) -> None:
        """Perform effects in order. Those after a save wait until it is durable."""
        waiting = deque(effects)
        saves: list[StoreUpdate] = []
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, Save):
                saves.append(effect.update)
                continue
            if saves:
                await self._owner.save(saves)
                saves = []
            match effect:
                case Send():
                    await self._send(effect.text)
                case Load():
                    drafts = await self._owner.load(effect.items_max, effect.bytes_max)
                    waiting.extend(self.session.offer(drafts))
                case Pause():
                    self._resume_after(effect.seconds)
                case Report():
                    self._owner.report(effect.error)
        if saves:
            await self._owner.save(saves)
        if end is not None:
            raise end
        self._owner.update_status(self.session)

    async def _send(self, text: bytes) -> None:
        try:
            async with asyncio.timeout(limits.OFFLINE_SILENCE_S_MAX):
                await self._socket.send(text, text=True)
        except TimeoutError:
            raise Silence("the server does not read what the client sends") from None

    def _resume_after(self, seconds: float) -> None:
        def resume() -> None:
            self._timers.discard(timer)
            self.call_soon(lambda session: session.resume())

        timer = self._loop.call_later(seconds, resume)
        self._timers.add(timer)


def _explain_close(error: ConnectionClosed) -> SyncClientError:
    if error.rcvd is None and error.sent is not None and error.sent.code in (1002, 1007):
        return ProtocolFault("the server sent a malformed WebSocket frame")
    if error.rcvd is None and error.sent is not None and error.sent.code == 1009:
        most = limits.OFFLINE_MESSAGE_BYTES_MAX
        return ProtocolFault(f"the server sent a message of more than {most} bytes")
    if error.rcvd is not None:
        return ConnectionLost(f"the server closed the connection: {error.rcvd.code} {error.rcvd.reason}".rstrip())
    return ConnectionLost("the connection broke")
