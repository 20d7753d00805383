"""Chunked bodies (RFC 9112, section 7.1): strict parsing, with a limit on everything that is not data."""

import re
from enum import Enum, auto
from typing import Final

from mainstem import limits
from mainstem.errors import BadRequest
from mainstem.server.edge.heads import FRAMING, TOKEN, split_field

CRLF: Final = b"\r\n"
QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
EXTENSION: Final = rb";" + TOKEN + rb"(?:=(?:" + TOKEN + rb"|" + QUOTED + rb"))?"
SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:" + EXTENSION + rb")*")
SIZE_LINE_BEGUN = re.compile(rb"[0-9A-Fa-f]{0,15}(?:;[\t -~\x80-\xff]*)?\r?")


class Part(Enum):
    """The part of the body that comes next."""

    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    NOTHING = auto()


class ChunkedBody:
    """Takes bytes, and returns the data in them. The bytes after the body are kept for `take_rest`."""

    __slots__ = ("_buffer", "_excess", "_left", "_part", "_trailer_bytes")

    def __init__(self) -> None:
        self._buffer = b""
        self._part = Part.SIZE
        self._left = 0
        self._excess = 0
        self._trailer_bytes = 0

    @property
    def complete(self) -> bool:
        return self._part is Part.NOTHING

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the data of some chunks, and whether more data can follow without new bytes: then call `feed(b"")`."""
        data = self._buffer + data if self._buffer else data
        pieces: list[bytes] = []
        at = 0
        steps = limits.CHUNKS_AT_ONCE
        while steps and self._part is not Part.NOTHING:
            steps -= 1
            before = at, self._part
            at = self._step(data, at, pieces)
            if (at, self._part) == before:
                break
        self._buffer = data[at:]
        more = not steps and bool(self._buffer) and not self.complete
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), more

    def take_rest(self) -> bytes:
        """Return the bytes after the body."""
        rest, self._buffer = self._buffer, b""
        return rest

    def _step(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Consume one part of a chunk, if it has arrived. Returns where the next one begins."""
        if self._part is Part.DATA:
            piece = data[at : at + self._left]
            if piece:
                pieces.append(piece)
                self._left -= len(piece)
                if not self._left:
                    self._part = Part.DATA_END
            return at + len(piece)
        if self._part is Part.DATA_END:
            if len(data) - at >= 2:
                if data[at : at + 2] != CRLF:
                    raise BadRequest("a chunk is longer than its size")
                self._part = Part.SIZE
                return at + 2
            return at
        end = data.find(CRLF, at, at + limits.CHUNK_LINE_BYTES_MAX + 2)
        if end < 0:
            if len(data) - at > limits.CHUNK_LINE_BYTES_MAX or data.find(b"\n", at) >= 0:
                raise BadRequest("a chunk header or trailer is too long, or does not end with CRLF")
            if self._part is Part.SIZE and SIZE_LINE_BEGUN.fullmatch(data, at) is None:
                raise BadRequest("a chunk header is malformed")
            return at
        line = data[at:end]
        if self._part is Part.SIZE:
            self._begin_chunk(line)
        else:
            self._take_trailer(line)
        return end + 2

    def _begin_chunk(self, line: bytes) -> None:
        match = SIZE_LINE.fullmatch(line)
        if match is None:
            raise BadRequest("a chunk header is malformed")
        self._left = int(match[1], 16)
        # Sizes and extensions around a few bytes of data would cost work for no gain.
        self._excess = max(0, self._excess + len(line) - 16 - 2 * self._left)
        if self._excess > limits.CHUNK_EXCESS_BYTES_MAX:
            raise BadRequest("the chunked body has more extensions than data")
        self._part = Part.DATA if self._left else Part.TRAILER

    def _take_trailer(self, line: bytes) -> None:
        """Check a trailer and drop it: a field after the body must not change the head."""
        if not line:
            self._part = Part.NOTHING
            return
        if split_field(line)[0] in FRAMING:
            raise BadRequest("a trailer must not change the framing of the request")
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > limits.TRAILER_BYTES_MAX:
            raise BadRequest(f"the trailers have more than {limits.TRAILER_BYTES_MAX} bytes")
