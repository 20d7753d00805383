"""Receivers that answer each connection with exactly the bytes that the test gives."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Behaviour = Callable[[socket.socket], None]


class RawReceiver:
    """Listens on 127.0.0.1. What it received stays in `requests`, one entry per connection."""

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/hook?a=b"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._answer, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            self.requests.append(read_request(connection))
            self._behave(connection)
        except OSError:
            pass  # the caller disconnected, as some tests intend
        finally:
            connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join()


def read_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def receiving(behave: Behaviour) -> Iterator[RawReceiver]:
    receiver = RawReceiver(behave)
    thread = threading.Thread(target=receiver.serve)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close()
        thread.join()


def answering(*parts: bytes) -> Behaviour:
    """Send these bytes and close."""

    def behave(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return behave


def hang(connection: socket.socket) -> None:
    """Send nothing until the other side gives up."""
    connection.recv(1)


def trickle(connection: socket.socket) -> None:
    """Keep sending bytes without ever completing the reply: a limit on silence alone would never end it."""
    ended = threading.Event()
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not ended.wait(0.01):
        connection.sendall(b"X-More: and more\r\n")
