"""Offsets: opaque to clients, `{readSeq}_{position}` to us, each 16 digits, so that text order is stream order."""

import re
from enum import Enum
from typing import NamedTuple

from mainstem.errors import BadOffset

FORM = re.compile(r"([0-9]{16})_([0-9]{16})")


class Offset(NamedTuple):
    read_seq: int
    """Which life of the path: a path that is deleted and created again gets the next one."""
    position: int
    """Bytes from the start of the stream."""

    @classmethod
    def parse(cls, text: str) -> "Offset":
        """An offset that this server made; the sentinels do not count."""
        match = FORM.fullmatch(text)
        if match is None:
            raise BadOffset(f"{text[:64]!r} is not an offset of this server")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.read_seq:016d}_{self.position:016d}"


class Sentinel(Enum):
    BEGINNING = "-1"
    NOW = "now"


def parse_offset(text: str) -> Offset | Sentinel:
    if text == "-1":
        return Sentinel.BEGINNING
    if text == "now":
        return Sentinel.NOW
    return Offset.parse(text)
