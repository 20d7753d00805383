"""Appends without a task: the fast path of `mainstem serve`.

An append that fits in memory needs no coroutine of its own: its request is parsed when its last byte arrives, the
command waits in the queue of the log, and the committer replies. All other requests, and every append under another
ASGI server, go through ASGI. Both paths share the parsing, the command and the reply.

What follows from the head of the request alone is found once, in an `AppendPlan`, which is remembered with the head.
"""

from collections.abc import Callable

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError
from mainstem.http.asgi import Headers
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.requests import collect_headers
from mainstem.http.responses import base_headers, encode_headers, problem_headers
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.request_cycle import RequestCycle
from mainstem.streams.commands.append import Appended
from mainstem.streams.http.append import AppendHeaders, append_reply, prepare_append, read_append_headers
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules import paths

Admit = Callable[[Headers, tuple[str, int] | None], tuple[Streams, Identity] | None]
"""Returns the streams and the caller's identity; None if ASGI must decide about the request."""
ChoosePolicy = Callable[[Headers], ReplyPolicy | None]
"""Returns the policy for replies to requests with a token."""


class AppendPlan(msgspec.Struct, frozen=True):
    """What follows from the head of an append, and is the same for all requests of its kind (see `Heads`)."""

    admit: Admit
    bytes_max: int
    path: str
    headers: Headers
    known: AppendHeaders
    reply_lines: bytes
    """The headers that every reply to such a request has."""
    policy: ReplyPolicy | None

    def begin(self, cycle: RequestCycle) -> "AppendHandler | None":
        if cycle.head.length > self.bytes_max:
            return None
        admitted = self.admit(self.headers, cycle.connection.client)
        return None if admitted is None else AppendHandler(cycle, self, *admitted)


def plan_append(
    head: RequestHead, mount: paths.Mount, bytes_max: int, admit: Admit, choose_policy: ChoosePolicy
) -> AppendPlan | None:
    """Return the plan for requests with this head; None if they are no appends, or invalid ones."""
    if (
        head.method != b"POST"
        or head.length < 0
        or head.query
        or head.expects_continue
        or not head.path.startswith(mount.root)
        or head.path.startswith(mount.control)
    ):
        return None
    try:
        headers = head.fields or collect_headers(head.headers)
        path = paths.parse_path(head.path[len(mount.root) :])
        known = read_append_headers(headers)
    except MainstemError:
        return None  # ASGI replies with the error
    bytes_max = min(limits.FAST_APPEND_BYTES_MAX, bytes_max)
    policy = choose_policy(headers)
    reply = base_headers(headers) if policy is None else policy.apply(base_headers(headers))
    return AppendPlan(admit, bytes_max, path, headers, known, encode_headers(reply), policy)


class AppendHandler(msgspec.Struct, eq=False):
    """One append: a handler to the connection, and a waiting caller to the log."""

    _cycle: RequestCycle
    _plan: AppendPlan
    _streams: Streams
    _identity: Identity
    _body: bytes = b""
    _pieces: list[bytes] | None = None
    """The pieces of a body that does not arrive as a whole."""
    _complete: bool = False

    @property
    def backlog(self) -> int:
        return 0  # the size of the body is bounded

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        if not self._body:
            self._body = data
        elif self._pieces is None:
            self._pieces = [data]
        else:
            self._pieces.append(data)

    def receive_end(self) -> None:
        """Enqueue the command: the request is complete."""
        self._complete = True
        self._cycle.identity = self._identity
        body = self._body if self._pieces is None else b"".join([self._body, *self._pieces])
        self._body, self._pieces = b"", None
        plan, streams = self._plan, self._streams
        try:
            self._identity.require_write(plan.path)
            headers = self._cycle.head.fields or plan.headers
            command = prepare_append(streams, plan.path, plan.known, headers, body)
            streams.log.enqueue(command, self, self._cycle.span)
        except MainstemError as error:
            self.set_exception(error)

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
        plan = self._plan
        if done.state.ttl_s is not None:
            self._streams.touch(plan.path, done.state)
        status, headers = append_reply(done)
        self._cycle.respond(status, headers, lines=plan.reply_lines)

    def set_exception(self, error: BaseException) -> None:
        if not isinstance(error, MainstemError):
            error = MainstemError("an unexpected error occurred; see the log of the server")
        headers, policy = problem_headers(error), self._plan.policy
        self._cycle.respond_problem(error, headers if policy is None else policy.apply(headers))
