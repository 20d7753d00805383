"""One connection without its socket: bytes in, events out, one request at a time."""

from typing import Final
from weakref import ref

from mainstem import limits
from mainstem.errors import HeadTooLarge, MainstemError
from mainstem.server.edge.bodies import ChunkedBody
from mainstem.server.edge.heads import END, UNKNOWN_LENGTH, Heads, KnownHead, RequestHead, check_beginning
from mainstem.server.edge.states import IllegalEvent, Read, Reading, Write, Writing, after_read, after_write


class EndOfRequest:
    """The event after the last byte of a request."""


END_OF_REQUEST: Final = EndOfRequest()
Event = RequestHead | bytes | EndOfRequest

# Looking up the members of an enum, and then a row of a table, would take a microsecond per request.
HEAD: Final = Reading.HEAD
BODY: Final = Reading.BODY
COMPLETE: Final = Reading.COMPLETE
REPLIED: Final = Writing.COMPLETE
AFTER_HEAD: Final = after_read(HEAD, Read.HEAD)
AFTER_HEAD_ONLY: Final = after_read(HEAD, Read.HEAD_ONLY)
AFTER_BODY: Final = after_read(BODY, Read.END)
NEXT_READING: Final = after_read(COMPLETE, Read.NEXT)
NEXT_WRITING: Final = after_write(REPLIED, Write.NEXT)
SWITCH: Final = Write.SWITCH


class Machine:
    """Call `feed` with the bytes that arrive, then `next_event` until it returns None.

    The events of a request are its head, pieces of its body, and END_OF_REQUEST. Those of the next request follow after
    `start_next_cycle`. Bad input raises a `MainstemError`, once: reply with it, and close the connection.
    """

    __slots__ = (
        "_buffer",
        "_checked",
        "_chunked",
        "_heads",
        "_last",
        "_left",
        "_skipped",
        "more",
        "reading",
        "writing",
    )

    def __init__(self, heads: Heads) -> None:
        self.reading = HEAD
        self.writing = Writing.IDLE
        self.more = False
        """Whether more events can follow without new bytes; other connections should have their turn first."""
        self._heads = heads
        self._last: ref[KnownHead] | None = None
        """The head of the last request, because that of the next one is often the same. Only `Heads` keeps it alive, so
        that the heads of idle connections take no memory."""
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
        return self.reading is BODY or (self.reading is HEAD and bool(self._buffer))

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data

    def take_rest(self) -> bytes:
        """Return the bytes after a request that switches the protocol."""
        rest, self._buffer = self._buffer, b""
        return rest

    def next_event(self) -> Event | None:
        """Return the next event; None if it needs more bytes, or if the current request has no reply yet."""
        try:
            if self.reading is HEAD:
                return self._read_head() if self._buffer else None
            if self.reading is BODY:
                return self._read_body()
        except MainstemError:
            self.reading = after_read(self.reading, Read.BAD)
            self._buffer = b""
            raise
        return None

    def _read_head(self) -> RequestHead | None:
        buffer = self._buffer
        known = None if self._last is None else self._last()
        if known is not None and (head := known.match(buffer)) is not None:
            return self._begin_request(head, buffer[len(head.raw) + 4 :])
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
        known = self._heads.parse(buffer[:end])
        self._last = ref(known)
        return self._begin_request(known.head, buffer[end + 4 :])

    def _begin_request(self, head: RequestHead, rest: bytes) -> RequestHead:
        self._checked = 0
        self._skipped = False
        self._buffer = rest
        if head.length == 0:
            self.reading = AFTER_HEAD_ONLY
        else:
            self.reading = AFTER_HEAD
            self._left = head.length
            if head.length == UNKNOWN_LENGTH:
                self._chunked = ChunkedBody()
        return head

    def take_whole_body(self) -> bytes | None:
        """Return the whole body, and complete the request, if all of it has arrived, as is common; else None."""
        left, buffer = self._left, self._buffer
        if self._chunked is not None or len(buffer) < left or self.reading is not BODY:
            return None
        self.reading = AFTER_BODY
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
        if event is SWITCH:
            self.reading = after_read(self.reading, Read.SWITCH)

    @property
    def cycle_over(self) -> bool:
        return self.reading is COMPLETE and self.writing is REPLIED

    def start_next_cycle(self) -> None:
        """Expect the next request. Both directions must be complete."""
        if not self.cycle_over:
            raise IllegalEvent(f"the next request while reading is {self.reading} and writing is {self.writing}")
        self.reading = NEXT_READING
        self.writing = NEXT_WRITING
