"""An incremental parser for server-sent events: bytes in, events out, and events combined into batches.

A line ends with LF, CRLF or CR, wherever the pieces are cut. Nothing else ends a line: U+2028 and the like are data.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.client.core.errors import InvalidResponse, TooMuchData
from mainstem.client.core.protocol import check_batch
from mainstem.client.core.results import Batch
from mainstem.streams.rules.content_types import is_json


class Event(NamedTuple):
    name: str
    data: bytes


class Control(msgspec.Struct, rename="camel", frozen=True):
    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False


class EventParser:
    """Parses the bytes of one response, in pieces of any size."""

    def __init__(self, bytes_max: int = limits.CLIENT_RESPONSE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rest = bytearray()
        self._skip_lf = False
        self._name = ""
        self._lines: list[bytes] = []
        self._held = 0
        self._first = True

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete."""
        for line in self._split(piece):
            event = self._take(line)
            if event is not None:
                yield event

    def _split(self, piece: bytes) -> list[bytes]:
        """Return the lines that are complete, without their line ends."""
        if self._skip_lf and piece:
            piece = piece.removeprefix(b"\n")
            self._skip_lf = False
        searched = len(self._rest)
        self._rest += piece
        if self._held + len(self._rest) > self._bytes_max:
            raise TooMuchData(f"the server sent an event of more than {self._bytes_max} bytes")
        if self._rest.find(b"\n", searched) < 0 and self._rest.find(b"\r", searched) < 0:
            return []
        text = bytes(self._rest)
        self._skip_lf = text.endswith(b"\r")  # its LF may arrive with the next piece
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = bytearray(rest)
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return lines

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._lines.append(value.removeprefix(b" "))
            self._held += len(value)
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
        return None  # a comment, an id, or an unknown field

    def _dispatch(self) -> Event | None:
        """Return the event that an empty line completes. Without a data line there is none."""
        lines, name = self._lines, self._name
        self._lines, self._name, self._held = [], "", 0
        return Event(name or "message", b"\n".join(lines)) if lines else None


class BatchParser:
    """Combines data events with the control event that follows them and gives their offset."""

    def __init__(self, content_type: str, *, base64: bool) -> None:
        self.content_type = content_type
        self.deleted = False
        """Whether the server reported that the stream was deleted."""
        self._base64 = base64
        self._events = EventParser()
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> Iterator[Batch]:
        for event in self._events.feed(piece):
            if event.name == "data":
                data = _decode_base64(event.data) if self._base64 else event.data
                self._data.append(data)
                self._held += len(data)
                if self._held > limits.CLIENT_RESPONSE_BYTES_MAX:
                    most = limits.CLIENT_RESPONSE_BYTES_MAX
                    raise TooMuchData(f"the server sent more than {most} bytes of data without a control event")
            elif event.name == "control":
                yield self._end_batch(_decode_control(event.data))
            elif event.name == "deleted":
                self.deleted = True

    def _end_batch(self, control: Control) -> Batch:
        # A server may send several data events before a control event; in a JSON stream each is an array.
        data = self._data[0] if len(self._data) == 1 else self._join()
        self._data, self._held = [], 0
        return check_batch(
            Batch(
                data=data,
                offset=control.stream_next_offset,
                content_type=self.content_type,
                up_to_date=control.up_to_date or control.stream_closed,
                closed=control.stream_closed,
                cursor=control.stream_cursor,
            )
        )

    def _join(self) -> bytes:
        if not is_json(self.content_type):
            return b"".join(self._data)
        arrays = [part.strip()[1:-1] for part in self._data]
        return b"[%b]" % b",".join(part for part in arrays if part.strip()) if arrays else b""


def _decode_base64(data: bytes) -> bytes:
    """Decode base64, which may span several lines."""
    try:
        return b64decode(data.replace(b"\n", b"").replace(b"\r", b""), validate=True)
    except binascii.Error as error:
        raise InvalidResponse("the server sent a data event that is not base64") from error


def _decode_control(data: bytes) -> Control:
    try:
        return msgspec.json.decode(data, type=Control)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidResponse("the server sent a malformed control event") from error
