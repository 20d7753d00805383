"""HTTP over a plain socket: nothing is normalised on the way, and nothing is read until the test asks for it."""

import json
import re
import socket
from http.client import HTTPResponse
from typing import NamedTuple

WAIT_S_MAX = 30  # only a hanging server makes a test wait this long


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict:
        assert self.headers["content-type"] == "application/problem+json"
        document = json.loads(self.body)
        assert document["status"] == self.status
        return document


class Event(NamedTuple):
    name: str
    data: str
    id: str | None = None

    @property
    def control(self) -> dict:
        assert self.name == "control"
        return json.loads(self.data)


def connect(address: tuple[str, int], *, receive_bytes: int | None = None) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(WAIT_S_MAX)
    if receive_bytes is not None:  # a small window, so that the server soon notices a reader that stops
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(address)
    return connection


def head(method: bytes, target: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), b"Host: test", *lines, b"", b""])


def post(path: str, body: bytes, *lines: bytes) -> bytes:
    return head(b"POST", path.encode(), b"Content-Type: text/plain", b"Content-Length: %d" % len(body), *lines) + body


def receive(connection: socket.socket, method: str = "GET") -> Reply:
    with HTTPResponse(connection, method=method) as response:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, response.read())


def exchange(address: tuple[str, int], raw: bytes, *, method: str = "GET", end: bool = False) -> Reply:
    """Send exactly these bytes on a new connection, and read one reply. `end` closes our half of the connection."""
    with connect(address) as connection:
        try:
            connection.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may answer before it has read everything
        if end:
            connection.shutdown(socket.SHUT_WR)
        return receive(connection, method)


def receive_all(connection: socket.socket) -> bytes:
    """Return everything that the server sends until it closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def send_all(address: tuple[str, int], raw: bytes) -> bytes:
    """Send exactly these bytes on a new connection, and read until the server closes it."""
    with connect(address) as connection:
        connection.sendall(raw)
        return receive_all(connection)


def statuses(raw: bytes) -> list[int]:
    """Return the status of every reply in the received bytes."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", raw)]


class EventReader:
    """One SSE response, read event by event."""

    def __init__(self, address: tuple[str, int], target: str, *lines: str, receive_bytes: int | None = None) -> None:
        self.connection = connect(address, receive_bytes=receive_bytes)
        self.connection.sendall(head(b"GET", target.encode(), *(line.encode() for line in lines)))
        self.response = HTTPResponse(self.connection)
        self.response.begin()
        self.status = self.response.status
        self.headers = {name.lower(): value for name, value in self.response.getheaders()}
        self._buffer = bytearray()
        self._ended = False
        self.raw = bytearray()
        """Everything that was received, without the transfer coding."""

    def __enter__(self) -> "EventReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.connection.close()

    def next(self) -> Event | None:
        """Return the next event or comment (as `Event("comment", ...)`), or None at the regular end of the response."""
        name, last_id = "", None
        data: list[str] = []
        while True:
            line = self._read_line()
            if not line:
                assert not name, f"the response ended within the event {name!r}"
                return None
            self.raw += line
            text = line.decode("utf-8").removesuffix("\n")
            field, _, value = text.partition(":")
            if not text:
                return Event(name, "\n".join(data), last_id)
            if not field:
                name, data = "comment", [value]
            elif field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))
            elif field == "id":
                last_id = value.removeprefix(" ")

    def _read_line(self) -> bytes:
        """Return a line of the body, or nothing at its end. Unlike http.client, fail if the connection was cut."""
        while b"\n" not in self._buffer and not self._ended:
            size = self.response.fp.readline()
            assert size.endswith(b"\r\n"), "the connection was cut within the response"
            part = self.response.fp.read(int(size, 16) + 2)
            assert part.endswith(b"\r\n"), "the connection was cut within the response"
            self._buffer += part[:-2]
            self._ended = len(part) == 2
        line, newline, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line + newline

    def take(self, number: int) -> list[Event]:
        events: list[Event] = []
        while len(events) < number:
            event = self.next()
            assert event is not None, f"the response ended early: {events}"
            events.append(event)
        return events

    def rest(self) -> list[Event]:
        return list(iter(self.next, None))
