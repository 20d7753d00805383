"""Reads without a task: the fast path of `mainstem serve` for pages that are in memory.

What follows from the head of the request alone is in a `ReadPlan`. All other reads, and every read under another ASGI
server, go through ASGI. Both paths share the recognition of pages and the building of responses.
"""

from collections.abc import Callable

import msgspec

from mainstem.http.asgi import Headers
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.request_cycle import FINISHED, Handler, RequestCycle
from mainstem.streams.http.headers import CatchUp, recognise_catch_up
from mainstem.streams.rules.paths import Mount

Respond = Callable[[RequestCycle, CatchUp, Headers], bool]
"""Replies to a read from memory; returns False if ASGI must reply."""


class ReadPlan(msgspec.Struct, frozen=True):
    """What follows from the head of a catch-up read."""

    respond: Respond
    read: CatchUp
    headers: Headers

    def begin(self, cycle: RequestCycle) -> Handler | None:
        return FINISHED if self.respond(cycle, self.read, self.headers) else None


def plan_read(head: RequestHead, mount: Mount, respond: Respond) -> ReadPlan | None:
    """Return the plan for requests with this head; None if they are no catch-up reads of a stream."""
    if head.method != b"GET" or head.fields is None or head.length or not head.path.startswith(mount.root):
        return None
    read = recognise_catch_up(head.path[len(mount.root) :], head.query)
    return None if read is None else ReadPlan(respond, read, head.fields)
