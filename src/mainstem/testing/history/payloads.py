"""What clients send and receive: messages of streams, and events. The clients of torture and simulation share it."""

from collections.abc import Sequence

import msgspec

from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Event


def content_type(path: str) -> str:
    """Return the content type of a stream. Its path says it, so that clients agree."""
    return "application/json" if path.endswith("json") else "text/plain"


def encode_messages(path: str, messages: Sequence[str]) -> bytes:
    if is_json(content_type(path)):
        return f"[{','.join(messages)}]".encode()
    return "".join(f"{message}\n" for message in messages).encode()


def decode_messages(path: str, data: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the messages of a page, and what it holds of one more: a page of text may end anywhere."""
    if is_json(content_type(path)):
        inner = data.decode().removeprefix("[").removesuffix("]")
        return tuple(inner.split(",")) if inner else (), b""
    whole, end, rest = data.rpartition(b"\n")
    return tuple(whole.decode().split("\n")) if end else (), rest


class Position:
    """Where a reader of a stream continues, and the beginning of a message that it has read so far."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset: Offset | None = None
        self._rest = b""

    @property
    def since(self) -> Offset | None:
        """The start of the next message."""
        if self.offset is None or not self._rest:
            return self.offset
        return Offset(self.offset.read_seq, self.offset.position - len(self._rest))

    def advance(self, data: bytes, next_: Offset) -> tuple[str, ...]:
        """Continue after a page, and return the messages that are complete now."""
        messages, self._rest = decode_messages(self.path, self._rest + data)
        self.offset = next_
        return messages

    def reset(self) -> None:
        self.offset, self._rest = None, b""


def target(path: str, offset: Offset | None = None, live: str = "") -> str:
    query = f"?offset={'-1' if offset is None else offset}" + (f"&live={live}" if live else "")
    return f"/v1/stream/{path}{query}"


class ReceivedEvent(msgspec.Struct):
    """An event as pages and broadcasts hold it, without the fields of which a history knows nothing."""

    id: str
    partitions: tuple[str, ...]
    committed_id: int
    event: msgspec.Raw

    def seen(self) -> Event:
        return Event(self.committed_id, self.id, self.partitions, bytes(self.event).decode())
