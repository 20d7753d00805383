"""Offsets: opaque to clients. Internally `{readSeq}_{position}` with 16 digits each, so they sort as text."""

import re
from enum import Enum
from typing import NamedTuple

from mainstem.errors import BadOffset

FORM = re.compile(r"([0-9]{16})_([0-9]{16})")


class Offset(NamedTuple):
    read_seq: int
    """The incarnation of the path: it increases when a stream is deleted and created again."""
    position: int
    """The number of bytes from the start of the stream."""

    @classmethod
    def parse(cls, text: str) -> "Offset":
        """Parse an offset that this server made, but not the sentinels `-1` and `now`."""
        match = FORM.fullmatch(text)
        if match is None:
            raise BadOffset(f"{text[:64]!r} is not an offset that this server sent")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return encode_offset(self.read_seq, self.position).decode()


def encode_offset(read_seq: int, position: int) -> bytes:
    """Return an offset as clients see it."""
    return b"%016d_%016d" % (read_seq, position)


class Sentinel(Enum):
    BEGINNING = "-1"
    NOW = "now"


def parse_offset(text: str) -> Offset | Sentinel:
    if text == "-1":
        return Sentinel.BEGINNING
    if text == "now":
        return Sentinel.NOW
    return Offset.parse(text)
