"""A sync connection for blocking code, which sends a message and waits for the reply."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from websockets.sync.client import connect

from mainstem.client.sync_protocol.errors import ServerRefused
from mainstem.client.sync_protocol.messages import Envelope, ErrorPayload, decode_message
from mainstem.client.trace_context import add_trace_context

T = TypeVar("T")


class SyncConnection:
    """One WebSocket. Every method raises OSError, TimeoutError or WebSocketException if the connection breaks."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        message_bytes_max: int,
        proxy: Literal[True] | None = True,
        compression: str | None = "deflate",
    ) -> None:
        self._timeout_s = timeout_s
        opened = connect(
            url,
            open_timeout=timeout_s,
            max_size=message_bytes_max,
            proxy=proxy,
            compression=compression,
            additional_headers=add_trace_context({}),
        )
        self._until_closed = ExitStack()
        self._socket = self._until_closed.enter_context(opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._until_closed.close()

    def send(self, message: bytes) -> None:
        self._socket.send(message, text=True)

    def receive(self, timeout_s: float | None) -> tuple[Envelope, Any]:
        """Return the next message and its payload. Raise `ServerRefused` for an error message."""
        envelope, payload = decode_message(self._socket.recv(timeout_s, decode=False))
        if isinstance(payload, ErrorPayload):
            raise ServerRefused(payload.code, payload.message, payload.details)
        return envelope, payload

    def receive_reply(self, kind: type[T], msg_id: str | None = None) -> T:
        """Return the next payload of a kind; with `msg_id`, the one that replies to that message. Skip all others."""
        while True:
            envelope, payload = self.receive(self._timeout_s)
            if isinstance(payload, kind) and (msg_id is None or envelope.msg_id == msg_id):
                return payload
