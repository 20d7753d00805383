"""Effects: the actions that a session returns for its connection to carry out.

Effects are carried out in order. Those in `Immediate` do not wait. Those in `Awaited` have a result, which the
connection passes to the session method named in their docstring; such an effect is always the last of its list.
"""

from collections.abc import Sequence

import msgspec

from mainstem.sync.protocol.cycles import Cycle
from mainstem.sync.protocol.messages import Envelope, frame_text
from mainstem.sync.protocol.requests import SubmitRequest


class Send(msgspec.Struct, eq=False, gc=False):
    """Send a message to the client. Its WebSocket frame is built once, even if many connections send it."""

    payload: bytes
    error_code: str = ""
    """The code of the error, if the message is one."""
    _frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            self._frame = frame_text(self.payload)
        return self._frame


class WatchExpiry(msgspec.Struct, frozen=True, gc=False):
    """Note that the client has connected, and call `token_expired` at this time, or never if it is None."""

    expires_at_s: float | None


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """Offer the events of these partitions to the session as they are committed."""

    partitions: list[str]


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    partitions: list[str]


class FeedFromLog(msgspec.Struct, frozen=True, gc=False):
    """Read from the log what `feed.next_read` returns, until it returns None."""


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close the connection once all replies have been sent."""

    code: int
    reason: str


class Decode(msgspec.Struct, frozen=True, gc=False):
    """Decode the payload, in a thread if it is large. Result: `decoded`."""

    envelope: Envelope
    placeholder: str | None


class VerifyToken(msgspec.Struct, frozen=True, gc=False):
    """Verify a token. Result: `verified` or `verification_failed`."""

    token: str


class AwaitReplies(msgspec.Struct, frozen=True, gc=False):
    """Wait until all pending submits have their outcomes and their replies are queued. Result: `replies_sent`."""


class CatchUp(msgspec.Struct, frozen=True, gc=False):
    """Wait until this node has broadcast everything that is durable now, on any node. Result: `caught_up`."""


class ReadPage(msgspec.Struct, frozen=True, gc=False):
    """Read one page of a cycle. Result: `page_read`."""

    cycle: Cycle
    since: int
    limit: int


class PendingReply(msgspec.Struct, eq=False, gc=False):
    """A reply that keeps its position in the order of requests. Later replies wait until it has its message."""

    msg_id: str | int | None
    drafts: int = 0
    single: bool = False
    message: Send | None = None


class SubmitDrafts(msgspec.Struct, frozen=True, gc=False):
    """Pass the drafts to the log once the client's quota allows it. Result: `submitted` when they are in the log's
    queue, and later `committed` or `submit_failed`."""

    request: SubmitRequest
    reply: PendingReply


Immediate = Send | WatchExpiry | Subscribe | Unsubscribe | FeedFromLog | Close
Awaited = Decode | VerifyToken | AwaitReplies | CatchUp | ReadPage | SubmitDrafts
Effects = Sequence[Immediate | Awaited]
