"""A peer on a real socket that sends canned answers, byte by byte, and records the requests that it received."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Asked(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = bytes | Callable[[Asked, socket.socket], None]


def reply(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Peer:
    """Sends its answers in order, and repeats the last one. An empty answer closes the connection."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Asked] = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            while (asked := read_request(reader)) is not None:
                with self._lock:
                    self.asked.append(asked)
                    answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if callable(answer):
                    answer(asked, connection)
                    return
                if not answer:
                    return
                connection.sendall(answer)

    def close(self) -> None:
        self._listener.close()


def read_request(reader) -> Asked | None:
    first = reader.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers = {}
    while line := reader.readline().strip().decode():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(first[0], first[1], headers, reader.read(int(headers.get("content-length", "0"))))


@contextmanager
def canned(*answers: Answer) -> Iterator[Peer]:
    peer = Peer(*answers)
    try:
        yield peer
    finally:
        peer.close()
