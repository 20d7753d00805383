"""A WebSocket: `frames` and the sans-I/O protocol of `websockets` parse frames, an ASGI app handles the messages."""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from mainstem import limits
from mainstem.errors import BadRequest
from mainstem.http.request_ids import make_request_id
from mainstem.server.edge.asgi import Message, make_scope
from mainstem.server.edge.frames import FrameBoundary, read_text
from mainstem.server.edge.heads import END, RequestHead
from mainstem.server.edge.request_cycle import STATUS_LINES, error_reply

if TYPE_CHECKING:
    from mainstem.server.edge.connection import Connection
    from mainstem.server.edge.server import EdgeServer

logger = logging.getLogger(__name__)
FRAME_HEAD_BYTES_MAX = 14
BAD_HANDSHAKE = BadRequest(
    "the WebSocket handshake is malformed; send one Upgrade, a valid Sec-WebSocket-Key, and Sec-WebSocket-Version: 13",
    headers={"Sec-WebSocket-Version": "13"},  # RFC 6455, section 4.2.2
)
# Looking up a member of an enum takes about 0.1 us.
CONT, BINARY = Opcode.CONT, Opcode.BINARY
DATA_OPCODES = frozenset([Opcode.TEXT, BINARY, CONT])
# What the library logs about single connections only helps to debug the library.
quiet = logging.getLogger("mainstem.server.edge.frames")
quiet.setLevel(logging.CRITICAL)


class WebSocketConnection(asyncio.Protocol):
    """Delivers one message at a time: while one waits for the app, the socket is not read.

    It extends ASGI in three ways. Text arrives as bytes with the key `mainstem.text`, because it is parsed as JSON from
    bytes, and so that the app can report invalid UTF-8. A message that is too large arrives as `mainstem.oversize`, so
    that the app can reply before it closes. The extension `mainstem.frames` of the scope sends frames that are already
    encoded.
    """

    def __init__(self, server: "EdgeServer", connection: "Connection", head: RequestHead) -> None:
        self.server = server
        self.transport = connection.transport
        self.deadline: float | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self._connection = connection
        self._head = head
        self._protocol = ServerProtocol(max_size=server.message_bytes_max, logger=quiet)
        self._boundary = FrameBoundary()
        self._response: Response | None = None
        self._denial: list[bytes] | None = None
        self._pending = b""
        self._scheduled = False
        self._paused = False
        self._parsing_bytes = 0
        """Roughly how many bytes of an incomplete frame the protocol holds."""
        self._fragments: list[bytes] = []
        self._fragment_bytes = 0
        self._binary = False
        self._queue: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._heard = True
        self._refused = False
        self._last = b""
        self._over = False
        """Whether the connection is closed for sending."""
        self._held = False
        self._status = 403
        self._code = ""
        """The status and the error code with which the app has rejected the handshake."""

    # Handshake

    def begin(self, rest: bytes) -> None:
        """Check the handshake, and let the app accept or reject it."""
        self._protocol.receive_data(self._head.raw + END)
        requests = [event for event in self._protocol.events_received() if isinstance(event, Request)]
        response = self._protocol.accept(requests[0]) if requests else None
        if response is None or response.status_code != 101:
            self._observe(BAD_HANDSHAKE.status, BAD_HANDSHAKE.code)
            self.transport.write(error_reply(BAD_HANDSHAKE, self.server.date_line))
            self._close()
            return
        self._response = response
        self._pending = rest
        self._pause()
        self._queue.append({"type": "websocket.connect"})
        self.server.run(self._run())

    async def _run(self) -> None:
        scope = make_scope(self._connection, self._head)
        scope["type"] = "websocket"
        scope["scheme"] = "wss" if self._connection.secure else "ws"
        scope["subprotocols"] = []
        scope["mainstem.request_id"] = self._head.request_id.decode("ascii") or make_request_id()
        scope["extensions"] = {"websocket.http.response": {}, "mainstem.frames": self}
        try:
            await self.server.app(scope, self.receive, self.send)
        except Exception:
            logger.exception("an unexpected error occurred while handling a WebSocket")
            self._fail(CloseCode.INTERNAL_ERROR, "")
        if not self._over:
            if self._response is not None:
                self._reject(500)
            self._close()

    def _accept(self) -> None:
        assert self._response is not None
        self._protocol.send_response(self._response)
        self._response = None
        self._observe(101)
        self._flush()
        self.deadline = self.server.loop.time() + limits.WEBSOCKET_PING_S
        self._read_on()

    def _reject(self, status: int, reply: bytes = b"") -> None:
        """Reject the handshake, as the app has decided."""
        self._response = None
        self._observe(status, self._code)
        fallback = STATUS_LINES[status] + self.server.date_line + b"content-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(reply or fallback)
        self._close()

    def _observe(self, status: int, code: str = "") -> None:
        if self.server.observer is not None:
            self.server.observer.observe_handshake(self._head, status, code)

    # Called by the transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.remove(self)
        self._connection.release()
        self.deadline = None
        self._over = True
        self.writable.set()
        if self._held:
            self.server.memory.hold(self, 0)
        code = CloseCode.ABNORMAL_CLOSURE if self._protocol.close_rcvd is None else self._protocol.close_rcvd.code
        self._deliver({"type": "websocket.disconnect", "code": int(code), "reason": ""})

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writable.clear()
        self._settle()

    def resume_writing(self) -> None:
        self.writable.set()
        self._settle()
        self._read_on()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._refused or self._over:
            return  # dropped until the connection is closed
        self._pending += data
        if self._response is None:
            self._read_on()
        elif len(self._pending) > limits.READ_AHEAD_BYTES:
            self._pause()

    def _read_on(self) -> None:
        """Parse the pending bytes in small steps: a flood of tiny frames must not block the event loop."""
        if self._scheduled or self._queue or self._refused or self._over or not self.writable.is_set():
            self._settle()
            return
        if self._pending:
            part, self._pending = (
                self._pending[: limits.FRAMES_AT_ONCE_BYTES],
                self._pending[limits.FRAMES_AT_ONCE_BYTES :],
            )
            self._parse(part)
        if self._pending and not self._queue and not self._refused:
            self._scheduled = True
            self.server.loop.call_soon(self._read_later)
        self._settle()

    def _read_later(self) -> None:
        self._scheduled = False
        self._read_on()

    def _parse(self, data: bytes) -> None:
        at = 0
        if self._boundary.reached and not self._fragments:
            while (found := read_text(data, at, self.server.message_bytes_max)) is not None:
                text, at = found
                self._deliver({"type": "websocket.receive", "bytes": text, "mainstem.text": True})
        if at < len(data):
            data = data[at:]
            self._boundary.advance(data)
            self._protocol.receive_data(data)
            self._parsing_bytes += len(data)
            self._take_frames()

    def _take_frames(self) -> None:
        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)
            self._parsing_bytes = max(0, self._parsing_bytes - len(frame.data) - FRAME_HEAD_BYTES_MAX)
            if frame.opcode in DATA_OPCODES and not self._over:
                self._take_fragment(frame)
        if self._protocol.parser_exc is not None:
            self._refuse()
            return
        self._flush()
        if self._protocol.state is not State.OPEN:
            self._close()

    def _take_fragment(self, frame: Frame) -> None:
        if frame.opcode is not CONT:
            self._binary = frame.opcode is BINARY
        self._fragments.append(bytes(frame.data))
        self._fragment_bytes += len(frame.data)
        if frame.fin:
            data = self._fragments[0] if len(self._fragments) == 1 else b"".join(self._fragments)
            self._fragments.clear()
            self._fragment_bytes = 0
            message: Message = {"type": "websocket.receive", "bytes": data}
            if not self._binary:
                message["mainstem.text"] = True
            self._deliver(message)
        elif len(self._fragments) > limits.WEBSOCKET_FRAGMENTS_MAX:
            self._fail(CloseCode.POLICY_VIOLATION, "too many fragments")

    def _refuse(self) -> None:
        """Refuse input that violates the protocol. Messages before it count; the app replies to an oversized one."""
        close = self._protocol.close_sent
        self._refused = True
        self._pending = b""
        self._last = b"".join(self._protocol.data_to_send())
        if close is not None and close.code == CloseCode.MESSAGE_TOO_BIG:
            self._deliver({"type": "websocket.receive", "mainstem.oversize": True})
        else:
            code = CloseCode.PROTOCOL_ERROR if close is None else close.code
            self._deliver({"type": "websocket.disconnect", "code": int(code), "reason": close.reason if close else ""})
            self._close()

    def _fail(self, code: CloseCode, reason: str) -> None:
        if self._over or self._response is not None:
            return
        self._protocol.fail(code, reason)
        self._last = b"".join(self._protocol.data_to_send())
        self._refused = True
        self._deliver({"type": "websocket.disconnect", "code": int(code), "reason": reason})
        self._close()

    # Called by the app

    async def receive(self) -> Message:
        while not self._queue:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._queue.popleft()
        if not self._queue and self._response is None:
            self._read_on()
        return message

    def _deliver(self, message: Message) -> None:
        self._queue.append(message)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def send(self, message: Any) -> None:
        kind = message["type"]
        if self._over:
            return
        if self._response is not None:
            self._decide(kind, message)
        elif kind == "websocket.send":
            text = message.get("text")
            if text is None:
                self._protocol.send_binary(message["bytes"])
            else:
                self._protocol.send_text(text.encode())
            self._flush()
            await self.writable.wait()
        elif kind == "websocket.close":
            if not self._refused:
                self._protocol.send_close(message.get("code", 1000), message.get("reason") or "")
                self._last = b"".join(self._protocol.data_to_send())
            self._close()
        else:
            raise AssertionError(f"unexpected ASGI message {kind!r}")

    def _decide(self, kind: str, message: Any) -> None:
        """Accept or reject the handshake, as the app says."""
        if kind == "websocket.accept":
            self._accept()
        elif kind == "websocket.close":
            self._reject(403)
        elif kind == "websocket.http.response.start":
            fields = [b"%b: %b\r\n" % (name, value) for name, value in message["headers"] if name != b"connection"]
            self._code = message.get("mainstem.code", "")
            self._status = message["status"]
            self._denial = [STATUS_LINES[self._status], self.server.date_line, *fields, b"connection: close\r\n\r\n"]
        elif kind == "websocket.http.response.body" and self._denial is not None:
            self._denial.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._reject(self._status, b"".join(self._denial))
        else:
            raise AssertionError(f"unexpected ASGI message {kind!r}")

    def write_frames(self, data: bytes) -> None:
        """Send frames that are already encoded; many receivers may share the same bytes."""
        if not self._over:
            self.transport.write(data)

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and not self._over:
            self.transport.write(data)

    # Closing

    def _close(self) -> None:
        """Send the last bytes, then drop what is still in transit for a moment, and close.

        Closing with unread data would reset the connection, and the client might never see the reply.
        """
        if self._over:
            return
        if self._last:
            self.transport.write(self._last)
        self._over = True
        self.deadline = None
        self._pending = b""
        self._fragments.clear()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.server.loop.call_later(limits.LINGER_S, self.transport.close)
        self._settle()
        self._deliver({"type": "websocket.disconnect", "code": 1000, "reason": ""})

    def finish_soon(self) -> None:
        """Do nothing: the app closes its WebSockets when the server stops."""

    def abort(self) -> None:
        self.transport.abort()

    def expire(self) -> None:
        """Ping a client that was silent, or abort if it has not replied to the last ping."""
        if not self._heard:
            self.abort()
            return
        self._heard = False
        self.deadline = self.server.loop.time() + limits.WEBSOCKET_PING_S
        self._protocol.send_ping(b"")
        self._flush()

    # Limits

    def _settle(self) -> None:
        if self.transport.is_closing():
            return
        waits = self._scheduled or self._queue or self._pending or not self.writable.is_set()
        if waits and not self._over:
            self._pause()
        elif self._paused:
            self._paused = False
            self.transport.resume_reading()
        size = 0 if self._over else len(self._pending) + self._parsing_bytes + self._fragment_bytes
        if not self.writable.is_set():
            size += self.transport.get_write_buffer_size()
        if size or self._held:
            self._held = size > 0
            self.server.memory.hold(self, size)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    @property
    def stalls(self) -> bool:
        return bool(self._fragments or self._parsing_bytes) or not self.writable.is_set()

    def shed(self) -> None:
        self._held = False
        self.abort()
