"""Appends without a task: the fast path of `mainstem serve`.

An append that fits in memory needs no coroutine of its own: its request is parsed when its last byte arrives, the
command waits in the queue of the log, and the committer replies. All other requests, and every append under another
ASGI server, go through ASGI. Both paths share the parsing, the command and the reply.
"""

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError, problem
from mainstem.http.asgi import Headers
from mainstem.http.responses import problem_headers
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.request_cycle import RequestCycle
from mainstem.streams.commands.append import Appended
from mainstem.streams.http.append import append_reply, prepare_append
from mainstem.streams.http.handler import StreamsHttp
from mainstem.streams.rules import paths


def is_fast_append(head: RequestHead, http: StreamsHttp) -> bool:
    """Return whether a request is an append that is small enough to be collected in memory."""
    return (
        head.method == b"POST"
        and 0 <= head.length <= min(limits.FAST_APPEND_BYTES_MAX, http.body_bytes_max)
        and not head.query
        and not head.expects_continue
        and head.path.startswith(http.mount.root)
        and not head.path.startswith(http.mount.control)
    )


class AppendHandler:
    """One append: a handler to the connection, and a waiting caller to the log."""

    __slots__ = ("_complete", "_cycle", "_headers", "_http", "_identity", "_pieces")

    backlog = 0  # its size is bounded

    def __init__(self, cycle: RequestCycle, http: StreamsHttp, identity: Identity, headers: Headers) -> None:
        self._cycle = cycle
        self._http = http
        self._identity = identity
        self._headers = headers
        self._pieces: list[bytes] = []
        self._complete = False

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        self._pieces.append(data)

    def receive_end(self) -> None:
        """Enqueue the command: the request is complete."""
        self._complete = True
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        try:
            path = self._parse_path()
            self._identity.require_write(path)
            streams = self._http.streams
            streams.log.enqueue(prepare_append(streams, path, self._headers, body), self)
        except MainstemError as error:
            self.set_exception(error)

    def _parse_path(self) -> str:
        return paths.parse_path(self._cycle.head.path[len(self._http.mount.root) :])

    def client_disconnected(self) -> None:
        """Drop an incomplete append. A complete one is committed even if its client is gone."""
        if not self._complete:
            self._cycle.abort()

    # Called by the log

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return self._cycle.complete

    def set_result(self, done: Appended) -> None:
        if done.state.ttl_s is not None:
            self._http.streams.touch(self._parse_path(), done.state)
        self._cycle.respond(*append_reply(self._headers, done))

    def set_exception(self, error: BaseException) -> None:
        if not isinstance(error, MainstemError):
            error = MainstemError("an unexpected error occurred; see the log of the server")
        self._cycle.respond(error.status, problem_headers(error), msgspec.json.encode(problem(error)))
