"""One connection without its socket: bytes in, events out, one request at a time."""

from typing import Final

from mainstem import limits
from mainstem.errors import HeadTooLarge, MainstemError
from mainstem.server.edge.bodies import ChunkedBody
from mainstem.server.edge.heads import END, UNKNOWN_LENGTH, RequestHead, check_beginning, parse_head
from mainstem.server.edge.states import Read, Reading, Write, Writing, after_read, after_write


class EndOfRequest:
    """The event after the last byte of a request."""


END_OF_REQUEST: Final = EndOfRequest()
Event = RequestHead | bytes | EndOfRequest


class Machine:
    """Call `feed` with the bytes that arrive, then `next_event` until it returns None.

    The events of a request are its head, pieces of its body, and END_OF_REQUEST. Those of the next request follow after
    `start_next_cycle`. Bad input raises a `MainstemError`, once: reply with it, and close the connection.
    """

    __slots__ = ("_buffer", "_checked", "_chunked", "_left", "_skipped", "more", "reading", "writing")

    def __init__(self) -> None:
        self.reading = Reading.HEAD
        self.writing = Writing.IDLE
        self.more = False
        """Whether more events can follow without new bytes; other connections should have their turn first."""
        self._buffer = b""
        self._checked = 0
        self._skipped = False
        self._left = 0
        self._chunked: ChunkedBody | None = None

    @property
    def buffered(self) -> int:
        """The number of bytes that have arrived and are not part of an event yet."""
        return len(self._buffer) + (0 if self._chunked is None else self._chunked.buffered)

    @property
    def in_request(self) -> bool:
        """Whether a request has begun and is incomplete."""
        return self.reading is Reading.BODY or (self.reading is Reading.HEAD and bool(self._buffer))

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data

    def take_rest(self) -> bytes:
        """Return the bytes after a request that switches the protocol."""
        rest, self._buffer = self._buffer, b""
        return rest

    def next_event(self) -> Event | None:
        """Return the next event; None if it needs more bytes, or if the current request has no reply yet."""
        try:
            if self.reading is Reading.HEAD:
                return self._read_head() if self._buffer else None
            if self.reading is Reading.BODY:
                return self._read_body()
        except MainstemError:
            self.reading = after_read(self.reading, Read.BAD)
            self._buffer = b""
            raise
        return None

    def _read_head(self) -> RequestHead | None:
        buffer = self._buffer
        if not self._skipped and buffer.startswith(b"\r\n"):  # RFC 9112, section 2.2: ignore one empty line
            self._skipped = True
            self._checked = 0
            buffer = self._buffer = buffer[2:]
            if not buffer:
                return None
        end = buffer.find(END, max(self._checked - 3, 0), limits.REQUEST_HEAD_BYTES_MAX + 4)
        if end < 0:
            if len(buffer) > limits.REQUEST_HEAD_BYTES_MAX:
                raise HeadTooLarge(f"the request line and headers have more than {limits.REQUEST_HEAD_BYTES_MAX} bytes")
            check_beginning(buffer, self._checked)
            self._checked = len(buffer)
            return None
        self._checked = 0
        self._skipped = False
        self._buffer = buffer[end + 4 :]
        head = parse_head(buffer[:end])
        if head.length == 0:
            self.reading = after_read(self.reading, Read.HEAD_ONLY)
        else:
            self.reading = after_read(self.reading, Read.HEAD)
            self._left = head.length
            if head.length == UNKNOWN_LENGTH:
                self._chunked = ChunkedBody()
        return head

    def take_whole_body(self) -> bytes | None:
        """Return the whole body, and complete the request, if all of it has arrived, as is common; else None."""
        left, buffer = self._left, self._buffer
        if self._chunked is not None or len(buffer) < left or self.reading is not Reading.BODY:
            return None
        self.reading = after_read(self.reading, Read.END)
        self._left = 0
        if len(buffer) == left:
            self._buffer = b""
            return buffer
        self._buffer = buffer[left:]
        return buffer[:left]

    def _read_body(self) -> bytes | EndOfRequest | None:
        if self._chunked is not None:
            return self._read_chunks(self._chunked)
        if not self._left:
            self.reading = after_read(self.reading, Read.END)
            return END_OF_REQUEST
        data, self._buffer = self._buffer, b""
        if len(data) > self._left:
            data, self._buffer = data[: self._left], data[self._left :]
        if data:
            self._left -= len(data)
            self.reading = after_read(self.reading, Read.DATA)
        return data or None

    def _read_chunks(self, body: ChunkedBody) -> bytes | EndOfRequest | None:
        if body.complete:
            self._buffer = body.take_rest() + self._buffer
            self._chunked = None
            self.reading = after_read(self.reading, Read.END)
            return END_OF_REQUEST
        new, self._buffer = self._buffer, b""
        data, self.more = body.feed(new)
        if data:
            self.reading = after_read(self.reading, Read.DATA)
            return data
        return self._read_chunks(body) if body.complete else None

    def receive_eof(self) -> None:
        """Note that the client will send nothing more. A complete request can still get its reply."""
        self.reading = after_read(self.reading, Read.EOF)
        self._buffer = b""

    def write(self, event: Write) -> None:
        """Record an event of the writing direction, just before it happens."""
        self.writing = after_write(self.writing, event)
        if event is Write.SWITCH:
            self.reading = after_read(self.reading, Read.SWITCH)

    @property
    def cycle_over(self) -> bool:
        return self.reading is Reading.COMPLETE and self.writing is Writing.COMPLETE

    def start_next_cycle(self) -> None:
        self.reading = after_read(self.reading, Read.NEXT)
        self.writing = after_write(self.writing, Write.NEXT)
