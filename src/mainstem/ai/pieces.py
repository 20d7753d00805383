"""The pieces of a run: how they become JSON messages, and the buffer between their source and the stream."""

from collections import deque
from typing import Any

import msgspec

from mainstem import limits
from mainstem.client.core.errors import BadArgument

PIECE_OVERHEAD_BYTES = 64
"""What a buffered piece needs beside its text. It also limits how many of the smallest pieces are buffered or appended
together."""
PIECE_RESERVE_BYTES = 4096
"""How much smaller than a piece a value must be that is only a part of it."""


class InvalidPiece(BadArgument):
    """A source has yielded something that cannot be stored. Readers may know what: it is not an error of a library."""


def encode_piece(piece: Any) -> bytes:
    """Return a piece as one JSON message: text, a JSON value, a dataclass, a Struct, or a model with `model_dump`.

    Models may be inside other values.
    """
    kind = type(piece).__name__
    try:
        if isinstance(piece, (bytes, bytearray, memoryview)):
            piece = bytes(piece).decode()
        encoded = _encoder.encode(piece)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise InvalidPiece(f"a piece of type {kind} cannot be stored: yield text, JSON values or models") from None
    if len(encoded) > limits.RUN_PIECE_BYTES_MAX:
        raise InvalidPiece(
            f"a piece of {len(encoded)} bytes is larger than {limits.RUN_PIECE_BYTES_MAX}: yield smaller ones"
        )
    return encoded


def _simplify(value: Any) -> Any:
    """Return a value that the encoder does not know as one that it does."""
    if hasattr(value, "model_dump") and not isinstance(value, type):  # pydantic
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, str):  # such as the text of a LangChain message, which is a subclass
        return str.__str__(value)
    raise TypeError(type(value).__name__)


_encoder = msgspec.json.Encoder(enc_hook=_simplify)


def to_json_value(value: Any) -> Any:
    """Return what a tool or a node has returned as a JSON value that fits into a piece.

    Text stands for a value that has no such form, and for one that is too large.
    """
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        encoded = _encoder.encode(str(value).encode(errors="replace").decode())
    if len(encoded) > limits.RUN_PIECE_BYTES_MAX - PIECE_RESERVE_BYTES:
        return f"This result of {len(encoded)} bytes is too large to be shown."
    return msgspec.json.decode(encoded)


class BufferedBytes:
    """How much all runs of a process have buffered together."""

    def __init__(self) -> None:
        self.total = 0

    @property
    def full(self) -> bool:
        return self.total >= limits.RUNS_BUFFER_BYTES_MAX


class PieceBuffer:
    """Encoded pieces that are not stored yet, in order."""

    def __init__(self, shared: BufferedBytes) -> None:
        self._shared = shared
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def full(self) -> bool:
        """Whether the source must wait. It never waits with an empty buffer, because nothing would wake it."""
        return bool(self._pieces) and (self._size >= limits.RUN_BUFFER_BYTES_MAX or self._shared.full)

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._resize(cost(piece))

    def take(self) -> bytes:
        """Return the body of the next append, as a JSON array: all pieces, as far as they fit into one append."""
        taken: list[bytes] = []
        size = 0
        while self._pieces and (not taken or size + cost(self._pieces[0]) <= limits.RUN_BATCH_BYTES_MAX):
            size += cost(self._pieces[0])
            taken.append(self._pieces.popleft())
        self._resize(-size)
        return b"[%b]" % b",".join(taken)

    def clear(self) -> None:
        self._pieces.clear()
        self._resize(-self._size)

    def _resize(self, change: int) -> None:
        self._size += change
        self._shared.total += change


def cost(piece: bytes) -> int:
    return len(piece) + PIECE_OVERHEAD_BYTES
