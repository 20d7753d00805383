"""A blocking HTTP connection, which costs less than an event loop if there is only one reader."""

from __future__ import annotations

import socket

from bench.wire import (
    HEAD_BYTES_MAX,
    HEAD_END,
    HOST,
    UnexpectedReply,
    build_request,
    check_status,
    measure_body,
    require_header,
)

BUFFER_BYTES = 1024 * 1024
SILENCE_S_MAX = 60.0


class BlockingConnection:
    """A connection with one request at a time. It counts and discards bodies, unless the caller passes an array."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=SILENCE_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fetch(self, request: bytes, kept: bytearray | None = None) -> tuple[bytes, int]:
        """Send a request, and return the reply's head and the length of its body."""
        head = self.open(request)
        if request.startswith(b"HEAD "):
            return head, 0
        length = measure_body(head)
        if length is None:
            return head, self._skip_chunks(kept)
        self._skip(length, kept)
        return head, length

    def open(self, request: bytes) -> bytes:
        """Send a request and return the head of its reply; then call `read_piece` for the body."""
        self._socket.sendall(request)
        return self._read_until(HEAD_END)

    def read_piece(self) -> memoryview:
        """Return the next received bytes of the body. They are valid until the next read."""
        if self._start == self._end:
            self._receive()
        piece = self._view[self._start : self._end]
        self._start = self._end
        return piece

    def _receive(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        count = self._socket.recv_into(self._view[self._end :])
        if count == 0:
            raise UnexpectedReply("the server closed the connection")
        self._end += count

    def _read_until(self, mark: bytes) -> bytes:
        while True:
            found = self._buffer.find(mark, self._start, self._end)
            if found >= 0:
                text = bytes(self._view[self._start : found])
                self._start = found + len(mark)
                return text
            if self._end - self._start > HEAD_BYTES_MAX:
                raise UnexpectedReply("a head or a chunk size is too long")
            if self._end + HEAD_BYTES_MAX > BUFFER_BYTES:
                self._move_to_front()
            self._receive()

    def _move_to_front(self) -> None:
        waiting = bytes(self._view[self._start : self._end])
        self._view[: len(waiting)] = waiting
        self._start, self._end = 0, len(waiting)

    def _skip(self, count: int, kept: bytearray | None) -> None:
        while count:
            if self._start == self._end:
                self._receive()
            taken = min(count, self._end - self._start)
            if kept is not None:
                kept += self._view[self._start : self._start + taken]
            self._start += taken
            count -= taken

    def _skip_chunks(self, kept: bytearray | None) -> int:
        total = 0
        while True:
            size = int(self._read_until(b"\r\n").partition(b";")[0], 16)
            self._skip(size, kept)
            if self._read_until(b"\r\n"):
                raise UnexpectedReply("a chunk is longer than its size")
            if size == 0:
                return total
            total += size


def fetch_tail(connection: BlockingConnection, stream: str) -> str:
    """Return the offset after the last message."""
    head, _ = connection.fetch(build_request("HEAD", stream))
    check_status(head, b"", b"200")
    return require_header(head, "Stream-Next-Offset")
