"""The WebSocket protocol of `mainstem serve`: uvicorn's, which takes ready-made frames and answers before it closes."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from mainstem import limits


class FramedWebSocketProtocol(WebSocketsSansIOProtocol):
    _refused = False
    _last = b""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: Any = self.scope["extensions"]
            extensions["mainstem.frames"] = self

    def write_frames(self, data: bytes) -> None:
        """Frames that somebody has encoded already, many receivers' in the same bytes."""
        if not self.disconnected and not self.close_sent:
            self.transport.write(data)

    def send_receive_event_to_app(self) -> None:
        """Text stays bytes: it is parsed as JSON from there, and bad UTF-8 can be answered."""
        if self.curr_msg_data_type != "text":
            super().send_receive_event_to_app()
            return
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self.close_sent:
            return
        message: Any = {"type": "websocket.receive", "bytes": bytes(data), "mainstem.text": True}
        self.queue.put_nowait(message)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """A message that is too large is told to the app, which answers it in its turn and then closes."""
        assert self.conn.close_sent is not None
        self.handle_events()  # what came whole before it counts
        self._refused = True
        self._last = b"".join(self.conn.data_to_send())
        if self.handshake_complete and self.conn.close_sent.code == 1009:
            message: Any = {"type": "websocket.receive", "mainstem.oversize": True}
            self.queue.put_nowait(message)
        else:
            reason = self.conn.close_sent.reason
            self.queue.put_nowait({"type": "websocket.disconnect", "code": self.conn.close_sent.code, "reason": reason})
            self._close_lingering()

    async def send(self, message: Any) -> None:
        if self._refused and message["type"] == "websocket.close":
            self._close_lingering()
        else:
            await super().send(message)

    def _close_lingering(self) -> None:
        """Take in unread what is still on its way: closing over it would reset the connection and eat the answer."""
        if self.close_sent or self.disconnected:
            return
        self.transport.write(self._last)
        self.close_sent = True
        if self.read_paused:
            self.transport.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        # Without a timer of its own the end of the app would close the connection at once.
        self.close_timer = self.loop.call_later(limits.LINGER_S, self.transport.close)
