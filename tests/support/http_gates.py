"""A gate in front of a server, which holds a chosen request so that its sender can be killed at that moment."""

import re
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
Holds = Callable[[str, str], bool]


class HttpGate:
    """`url` leads through the gate. For every request, in order, `holds` decides by method and path; a request that it
    holds never reaches the server, and `reached` then returns True."""

    def __init__(self, url: str, holds: Holds) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._holds = holds
        self._held = threading.Event()
        self._deciding = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def reached(self) -> bool:
        return self._held.is_set()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for each in self._sockets:
            _end(each)
        for thread in self._threads[1:]:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # the gate is closing
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            self._sockets += [near, far]
            for pump in (self._ask, self._answer):
                self._threads.append(threading.Thread(target=pump, args=(near, far)))
                self._threads[-1].start()

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := near.recv(65_536):
                line = REQUEST.match(data)
                with self._deciding:
                    if line is not None and self._holds(line[1].decode(), line[2].decode()):
                        self._held.set()
                        return
                far.sendall(data)
        except OSError:
            pass  # one side is gone, so close the other too
        _end(far)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := far.recv(65_536):
                near.sendall(data)
        except OSError:
            pass
        _end(near)


def after(number: int, method: str, path: str) -> Holds:
    """Hold every request, of whatever kind, that follows this number of requests of the given kind."""
    passed = 0

    def holds(asked: str, of: str) -> bool:
        nonlocal passed
        if passed >= number:
            return True
        passed += asked == method and re.match(path, of) is not None
        return False

    return holds


def _end(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
