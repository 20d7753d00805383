"""The WebSocket protocol of `mainstem serve`: uvicorn's, which takes ready-made frames and answers before it closes."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from mainstem import limits
from mainstem.server.app import wall_clock_us
from mainstem.sync.frames import OversizeMessage, encode_error, frame_text


class FramedWebSocketProtocol(WebSocketsSansIOProtocol):
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

    def handle_parser_exception(self) -> None:
        if self.handshake_complete and self.conn.close_sent is not None and self.conn.close_sent.code == 1009:
            error = OversizeMessage(f"a message is at most {limits.SYNC_MESSAGE_BYTES_MAX} bytes")
            self.transport.write(frame_text(encode_error(error, wall_clock_us())))
        super().handle_parser_exception()
