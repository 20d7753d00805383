"""Server-sent events: `event: data` with its own `event: control` after it (protocol section 5.8).

Only LF ends a line here, and no space follows `data:`, so a receiver gets every other byte as it was.
"""

import re
from base64 import b64encode

import msgspec

from mainstem.streams.offsets import Offset

HEARTBEAT = b": keep-alive\n\n"
DELETED = b"event: deleted\ndata:{}\n\n"

# Whatever a receiver would take for the end of a line must become a line of its own, or data could forge events.
LINE_END = re.compile(rb"\r\n|\n|\r")


class Control(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False


def encode_text(data: bytes) -> bytes:
    """A data event of UTF-8 text."""
    if b"\n" not in data and b"\r" not in data:
        return b"event: data\ndata:%b\n\n" % data
    return b"event: data\ndata:%b\n\n" % LINE_END.sub(b"\ndata:", data)


def encode_binary(data: bytes) -> bytes:
    return b"event: data\ndata:%b\n\n" % b64encode(data)


def encode_control(offset: Offset, cursor: str | None, up_to_date: bool, closed: bool) -> bytes:
    """A closed stream has no cursor: nobody comes back."""
    control = Control(str(offset), None if closed else cursor, up_to_date, closed)
    return b"event: control\ndata:%b\nid:%b\n\n" % (msgspec.json.encode(control), str(offset).encode())


def whole_characters(data: bytes) -> int:
    """How many leading bytes end with a whole character, if the rest could still become one.

    Appends may cut a character in two; an event must not. Bytes that can never be UTF-8 are not held back.
    """
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return len(data) - back if needed > back else len(data)
    return len(data)


def repair(data: bytes) -> bytes:
    """Text as valid UTF-8: an event stream that is not cannot be read by a browser at all."""
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data
