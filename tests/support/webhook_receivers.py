"""A webhook receiver: a real HTTP server in a thread that answers as the test says and records the calls."""

import json
import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

WAIT_S_MAX = 10.0  # only a wake that never comes takes this long

Reply = tuple[int, bytes]
TAKEN: Reply = (200, b"{}")
DONE: Reply = (200, b'{"done": true}')
FAILED: Reply = (500, b"not now")


class Call(NamedTuple):
    headers: dict[str, str]
    body: bytes

    @property
    def wake(self) -> dict[str, Any]:
        wake: dict[str, Any] = json.loads(self.body)
        return wake

    @property
    def streams(self) -> dict[str, dict[str, Any]]:
        return {stream["path"]: stream for stream in self.wake["streams"]}


class Receiver:
    """`answer` decides the reply to every call, and may be replaced at any time; `calls` holds the unread calls."""

    def __init__(self, answer: Callable[[Call], Reply] = lambda call: TAKEN) -> None:
        self.answer = answer
        self.calls: queue.Queue[Call] = queue.Queue()
        self.released = threading.Event()
        """Also set when the receiver closes, so that a held answer never outlives the test."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                call = Call({name.lower(): value for name, value in self.headers.items()}, body)
                receiver.calls.put(call)
                status, reply = receiver.answer(call)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(reply)))
                    self.end_headers()
                    self.wfile.write(reply)
                except OSError:
                    pass  # the server has given up on this call

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = False
            request_queue_size = 128  # a burst of wakes must not be refused by a full backlog

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def next(self) -> Call:
        return self.calls.get(timeout=WAIT_S_MAX)

    def hold(self, reply: Reply) -> None:
        """Give this answer to every call, but not before `released` is set."""

        def answer(call: Call) -> Reply:
            self.released.wait()
            return reply

        self.answer = answer

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
