"""The server's side of one sync connection, without I/O.

The connection that owns a session calls it with messages, results of effects, outcomes of submits, and missed
deadlines. Each call returns the effects to carry out. Submits are pipelined: they wait in the log while the next
message is processed, and replies are sent in the order of requests. A `sync` waits for the submits before it, so its
pages include them. Messages are processed one at a time: the next may be passed once the effects of the last one, and
the effects that followed from their results, have been carried out.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, assert_never

import msgspec

from mainstem import limits
from mainstem.access import EVERYBODY, Identity
from mainstem.errors import (
    MainstemError,
    SyncAuthFailed,
    SyncBadRequest,
    SyncError,
    SyncForbidden,
    Unavailable,
)
from mainstem.log.records import Record
from mainstem.sync.commands import Result
from mainstem.sync.protocol.cycles import SyncPage
from mainstem.sync.protocol.effects import (
    AwaitReplies,
    CatchUp,
    Close,
    Decode,
    Effects,
    FeedFromLog,
    Immediate,
    PendingReply,
    ReadPage,
    Send,
    SubmitDrafts,
    Subscribe,
    Unsubscribe,
    VerifyToken,
    WatchExpiry,
)
from mainstem.sync.protocol.feed import Feed
from mainstem.sync.protocol.messages import (
    ConnectPayload,
    DisconnectPayload,
    Envelope,
    HeartbeatPayload,
    encode_error,
    encode_message,
)
from mainstem.sync.protocol.replies import (
    close_code,
    describe_server,
    encode_results,
    encode_single_result,
    translate,
)
from mainstem.sync.protocol.requests import Request, SubmitRequest, SyncRequest


class State(Enum):
    AWAIT_CONNECT = "await_connect"
    ACTIVE = "active"
    CLOSED = "closed"


# A second `connect` is refused like an unknown type.
ALLOWED_TYPES: Final[dict[State, frozenset[str]]] = {
    State.AWAIT_CONNECT: frozenset({"connect", "heartbeat"}),
    State.ACTIVE: frozenset({"submit_events", "submit_event", "sync", "heartbeat", "disconnect"}),
    State.CLOSED: frozenset(),
}
TYPES: Final = ALLOWED_TYPES[State.AWAIT_CONNECT] | ALLOWED_TYPES[State.ACTIVE]
# Looking up a member of an enum takes about 0.1 us, and these are needed for every message.
ACTIVE: Final = State.ACTIVE
CLOSED: Final = State.CLOSED


def _expired() -> SyncAuthFailed:
    return SyncAuthFailed("the token has expired; connect again with a new one")


class SessionOptions(msgspec.Struct, frozen=True, gc=False):
    implicit_subscriptions: bool = False
    """Whether a `sync` without `subscription_partitions` subscribes to its `partitions`."""
    uuids_only: bool = False
    """Whether event ids must be UUIDs."""


class Session:
    def __init__(self, number: int, options: SessionOptions) -> None:
        """`number` identifies the connection, so that it can recognise its own events."""
        self.number = number
        self.options = options
        self.state = State.AWAIT_CONNECT
        self.identity = Identity()
        self.client_id = ""
        self.feed = Feed(0)
        self._msg_id: str | int | None = None
        self._sync: SyncRequest | None = None
        """The `sync` that waits for pending replies or for the log."""
        self._replies: deque[PendingReply] = deque()

    @property
    def replies_waiting(self) -> int:
        """The number of replies that wait for the outcome of their own or an earlier submit."""
        return len(self._replies)

    # Messages

    def receive(self, envelope: Envelope, placeholder: str | None, now_us: int) -> Effects:
        """Process one message. Its payload is decoded only if the session accepts its type in the current state."""
        self._msg_id = envelope.msg_id
        if self.state is ACTIVE and self.identity.has_expired(now_us):
            return self._refuse(_expired(), now_us)
        if envelope.type not in ALLOWED_TYPES[self.state]:
            return self._refuse(self._not_allowed(envelope.type), now_us)
        return (Decode(envelope, placeholder),)

    def _not_allowed(self, type_: str) -> SyncBadRequest:
        if type_ not in TYPES:
            return SyncBadRequest(f"{type_[:64]!r} is not a message type; use one of {', '.join(sorted(TYPES))}")
        if self.state is State.AWAIT_CONNECT:
            return SyncBadRequest(f"send connect before {type_}")
        if self.state is State.ACTIVE:  # which allows every type but this one
            return SyncBadRequest("connect was already sent on this connection")
        return SyncBadRequest(f"{type_} is not allowed: the connection is closing")

    def decoded(self, request: Request, now_us: int) -> Effects:
        if self.state is CLOSED:
            return ()
        match request:
            case SubmitRequest():
                return (SubmitDrafts(request, PendingReply(self._msg_id, len(request.drafts), single=request.single)),)
            case SyncRequest():
                return self._accept_sync(request, now_us)
            case HeartbeatPayload():
                return self._send("heartbeat_ack", {}, now_us)
            case ConnectPayload():
                self.client_id = request.client_id
                return (VerifyToken(request.token),)
            case DisconnectPayload():
                self.state = State.CLOSED
                return (AwaitReplies(),)
            case _:
                assert_never(request)

    def fail(self, error: MainstemError, msg_id: str | int | None, now_us: int) -> Sequence[Immediate]:
        """Send an error because a message could not be read or one of its effects failed. The connection is never
        closed without one."""
        self._sync = None
        refusal = error if isinstance(error, SyncError) else translate(error, "storage")
        return self._send_error(refusal, refusal.msg_id if msg_id is None else msg_id, now_us)

    # Connecting

    def verified(self, identity: Identity, now_us: int) -> Effects:
        if self.state is State.CLOSED:
            return ()
        if identity is not EVERYBODY and identity.client_id != self.client_id:
            return self._refuse(SyncAuthFailed(f"the token is not for the client_id {self.client_id!r}"), now_us)
        if identity.has_expired(now_us):
            return self._refuse(_expired(), now_us)
        self.identity = identity
        return (CatchUp(),)  # the client may have been connected to another node that is ahead of this one

    def verification_failed(self, error: MainstemError, now_us: int) -> Sequence[Immediate]:
        if isinstance(error, Unavailable):
            return self._refuse(SyncError(error.detail, phase="connect"), now_us)
        return self._refuse(SyncAuthFailed(error.detail), now_us)

    def _connected(self, head: int, now_us: int) -> Sequence[Immediate]:
        self.state = State.ACTIVE
        self.feed = Feed(head)
        body = describe_server(self.client_id, head, now_us, uuids_only=self.options.uuids_only)
        return [WatchExpiry(self.identity.expires_at_s), *self._send("connected", body, now_us)]

    def connect_timed_out(self, now_us: int) -> Sequence[Immediate]:
        error = SyncAuthFailed(f"no connect message arrived within {limits.CONNECT_WAIT_S_MAX:g} seconds")
        return self._send_error(error, None, now_us)

    def token_expired(self, now_us: int) -> Sequence[Immediate]:
        return self._send_error(_expired(), None, now_us)

    # Submitting

    def submitted(self, reply: PendingReply) -> None:
        """Reserve the position of a reply, now that its drafts are in the log's queue."""
        self._replies.append(reply)

    def committed(self, reply: PendingReply, results: Sequence[Result], now_us: int) -> Sequence[Immediate]:
        """Reply with the results of the drafts, committed or rejected."""
        if not self.feed.live:  # the feed must not send the connection its own events when it reads from the log
            self.feed.own_ids.update(result.committed_id for result in results if result.committed_id is not None)
        if reply.single:
            reply.message = Send(encode_single_result(results[0], now_us, reply.msg_id))
        else:
            reply.message = Send(encode_results(results, now_us, reply.msg_id))
        return self._take_ready_replies()

    def submit_failed(self, reply: PendingReply, error: BaseException, now_us: int) -> Sequence[Immediate]:
        failure = SyncError("the server could not store the events; connect again and resubmit them", phase="submit")
        if isinstance(error, MainstemError):
            failure = translate(error, "submit")
        reply.message = Send(encode_error(failure, now_us, reply.msg_id), failure.code)
        ready = self._take_ready_replies()
        return [*ready, self._close(failure)] if failure.closes else ready

    def _take_ready_replies(self) -> Sequence[Immediate]:
        replies = self._replies
        ready: list[Immediate] = []
        while replies and (message := replies[0].message) is not None:
            ready.append(message)
            replies.popleft()
        return ready

    def replies_sent(self) -> Effects:
        """Continue the `sync` or `disconnect` that was waiting for the replies."""
        return (Close(1000, ""),) if self._sync is None else (CatchUp(),)

    # Syncing

    def _accept_sync(self, request: SyncRequest, now_us: int) -> Effects:
        if request.subscriptions is None and self.options.implicit_subscriptions:
            request = msgspec.structs.replace(request, subscriptions=request.partitions)
        for name in (*request.partitions, *(request.subscriptions or ())):
            if not self.identity.may_use(name):
                return self._refuse(SyncForbidden(f"the token does not allow the partition {name!r}"), now_us)
        self._sync = request
        return (AwaitReplies(),)

    def caught_up(self, head: int, now_us: int) -> Effects:
        """Continue a `connect` or a `sync`. `head` is the newest committed id that was broadcast."""
        request, self._sync = self._sync, None
        if self.state is State.AWAIT_CONNECT:
            return self._connected(head, now_us)
        if self.state is State.CLOSED or request is None:
            return ()
        cycle = self.feed.begin_or_continue(request.partitions, request.since, head)
        page = ReadPage(cycle, request.since, request.limit)
        if request.subscriptions is None:
            return (page,)
        added, dropped = self.feed.replace_subscriptions(request.subscriptions, cycle.until)
        return Subscribe(added), Unsubscribe(dropped), page

    def page_read(self, page: SyncPage, now_us: int) -> Sequence[Immediate]:
        if self.state is State.CLOSED:
            return ()
        self.feed.turn_page(page)
        response = self._send("sync_response", page.describe(list(self.feed.subscriptions)), now_us)
        return response if page.has_more else [*response, FeedFromLog()]

    # Broadcasts

    def takes(self, record: Record) -> bool:
        """Return whether to send a broadcast. It returns no effects because it runs once per event and connection."""
        return self.feed.live and record.origin != self.number

    def fell_behind(self, committed_id: int) -> Sequence[Immediate]:
        """Read the events after this one from the log, because the client does not read fast enough."""
        self.feed.pause(committed_id)
        return (FeedFromLog(),)

    def feed_failed(self, error: SyncError) -> Sequence[Immediate]:
        return (self._close(error),)

    # Ending

    def shut_down(self) -> Sequence[Immediate]:
        """Close because the server is shutting down. Messages that have already arrived are still answered."""
        return (Close(1000, ""),)

    def expel(self) -> Sequence[Immediate]:
        """Close because an administrator asks for it. Pending submits are still answered, further messages are not."""
        self.state = State.CLOSED
        return (Close(1008, "disconnected by an administrator"),)

    def disconnected(self) -> Sequence[Immediate]:
        """End the session because the connection is gone."""
        self.state = State.CLOSED
        return (Unsubscribe(list(self.feed.subscriptions)),)

    def _close(self, error: SyncError) -> Close:
        self.state = State.CLOSED
        return Close(close_code(error), error.code)

    # Replies

    def _refuse(self, error: SyncError, now_us: int) -> Sequence[Immediate]:
        return self._send_error(error, self._msg_id, now_us)

    def _send_error(self, error: SyncError, msg_id: str | int | None, now_us: int) -> Sequence[Immediate]:
        message = self._reply(Send(encode_error(error, now_us, msg_id), error.code))
        return [*message, self._close(error)] if error.closes else message

    def _send(self, type_: str, payload: Any, now_us: int) -> Sequence[Immediate]:
        return self._reply(Send(encode_message(type_, payload, now_us, self._msg_id)))

    def _reply(self, message: Send) -> Sequence[Immediate]:
        """Send a message now, or after the pending replies."""
        if not self._replies:
            return (message,)
        reply = PendingReply(None)
        reply.message = message
        self._replies.append(reply)
        return ()
