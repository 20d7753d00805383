"""Server-sent events: `event: data` with its own `event: control` after it (protocol section 5.8).

Only LF ends a line here, and no space follows `data:`, so a receiver gets every other byte as it was.
"""

import re
from base64 import b64encode

import msgspec

from mainstem.streams.rules.offsets import Offset

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
    return b"event: data\n%b\n" % encode_lines(data)


def encode_lines(data: bytes) -> bytes:
    """Data as `data:` lines. A receiver drops one space after the colon, so a line that begins with one gets two."""
    lines = LINE_END.split(data) if b"\n" in data or b"\r" in data else [data]
    return b"".join(b"data: %b\n" % line if line[:1] == b" " else b"data:%b\n" % line for line in lines)


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
        if data[-back] >= 0xC0:  # the first byte of a character
            try:
                data[-back:].decode("utf-8")
            except UnicodeDecodeError as error:
                if error.reason == "unexpected end of data":
                    return len(data) - back
            break
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
