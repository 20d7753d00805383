"""Server-sent events: each `event: data` is followed by its own `event: control` (protocol section 5.8).

Lines end with LF only, and no space follows `data:`, so a receiver gets all other bytes unchanged.
"""

import re
from base64 import b64encode

import msgspec

from mainstem.streams.rules.offsets import Offset

HEARTBEAT = b": keep-alive\n\n"
DELETED = b"event: deleted\ndata:{}\n\n"

# Everything that a receiver treats as the end of a line must start a new `data:` line, or data could forge events.
LINE_END = re.compile(rb"\r\n|\n|\r")


class Control(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False


def encode_text(data: bytes) -> bytes:
    """Return a data event with UTF-8 text."""
    return b"event: data\n%b\n" % encode_lines(data)


def encode_lines(data: bytes) -> bytes:
    """Return data as `data:` lines. A receiver drops one space after the colon, so one is added to lines that begin
    with a space."""
    lines = LINE_END.split(data) if b"\n" in data or b"\r" in data else [data]
    return b"".join(b"data: %b\n" % line if line[:1] == b" " else b"data:%b\n" % line for line in lines)


def encode_binary(data: bytes) -> bytes:
    return b"event: data\ndata:%b\n\n" % b64encode(data)


def encode_control(offset: Offset, cursor: str | None, up_to_date: bool, closed: bool) -> bytes:
    """Return a control event. It has no cursor if the stream is closed, since no reader needs to come back."""
    control = Control(str(offset), None if closed else cursor, up_to_date, closed)
    return b"event: control\ndata:%b\nid:%b\n\n" % (msgspec.json.encode(control), str(offset).encode())


def whole_characters(data: bytes) -> int:
    """Return the number of leading bytes up to the last complete character.

    Appends may split a character; an event must not. Bytes that can never become UTF-8 are not held back.
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
    """Return the text with invalid bytes replaced, because an event stream must be UTF-8."""
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data
