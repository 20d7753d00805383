"""The server's side of one connection, without I/O.

The owner of a session passes it what happens: messages, results of effects, outcomes of submits, the passing of
deadlines. Each input returns the effects to carry out. Submits are pipelined: they wait in the log while the next
message is taken, and replies are sent in the order of requests. A `sync` waits for the submits before it, so it sees
them. Messages are taken one at a time: the next one may be passed when the effects of the last one, and those that
their results led to, have been carried out.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, assert_never

import msgspec

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


# A second `connect` is as wrong as an unknown type.
ALLOWED_TYPES: Final[dict[State, frozenset[str]]] = {
    State.AWAIT_CONNECT: frozenset({"connect", "heartbeat"}),
    State.ACTIVE: frozenset({"submit_events", "submit_event", "sync", "heartbeat", "disconnect"}),
    State.CLOSED: frozenset(),
}
TYPES: Final = ALLOWED_TYPES[State.AWAIT_CONNECT] | ALLOWED_TYPES[State.ACTIVE]


class SessionOptions(msgspec.Struct, frozen=True, gc=False):
    implicit_subscriptions: bool = False
    """A `sync` without subscriptions of its own subscribes to its partitions."""
    uuids_only: bool = False
    """Event ids must be UUIDs."""


class Session:
    def __init__(self, number: int, options: SessionOptions) -> None:
        """`number` is that of the connection, by which it knows its own events."""
        self.number = number
        self.options = options
        self.state = State.AWAIT_CONNECT
        self.identity = Identity()
        self.client_id = ""
        self.feed = Feed(0)
        self._msg_id: str | int | None = None
        self._sync: SyncRequest | None = None
        """The `sync` that waits for replies, or for the log."""
        self._replies: deque[PendingReply] = deque()

    @property
    def replies_waiting(self) -> int:
        """How many replies wait for the outcome of a submit, their own or one before."""
        return len(self._replies)

    # Messages

    def receive(self, envelope: Envelope, placeholder: str | None, now_us: int) -> Effects:
        """One message. Its payload is decoded only if the session takes messages of its type now."""
        self._msg_id = envelope.msg_id
        if self.state is State.ACTIVE and self.identity.has_expired(now_us):
            return self._refuse(SyncAuthFailed("the token has expired"), now_us)
        if envelope.type not in ALLOWED_TYPES[self.state]:
            return self._refuse(self._not_allowed(envelope.type), now_us)
        return (Decode(envelope, placeholder),)

    def _not_allowed(self, type_: str) -> SyncBadRequest:
        if type_ not in TYPES:
            return SyncBadRequest(f"{type_[:64]!r} is not a message type of this protocol")
        if self.state is State.AWAIT_CONNECT:
            return SyncBadRequest("say connect first")
        return SyncBadRequest(f"{type_} is not expected now")

    def decoded(self, request: Request, now_us: int) -> Effects:
        if self.state is State.CLOSED:
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
        """A message could not be read, or one of its effects failed: that is answered, never met with a bare close."""
        self._sync = None
        refusal = error if isinstance(error, SyncError) else translate(error, "storage")
        return self._send_error(refusal, refusal.msg_id if msg_id is None else msg_id, now_us)

    # Connecting

    def verified(self, identity: Identity, now_us: int) -> Effects:
        if self.state is State.CLOSED:
            return ()
        if identity is not EVERYBODY and identity.client_id != self.client_id:
            return self._refuse(SyncAuthFailed("the token is for another client_id, or for none"), now_us)
        if identity.has_expired(now_us):
            return self._refuse(SyncAuthFailed("the token has expired"), now_us)
        self.identity = identity
        return (CatchUp(),)  # the client may come from another node, and has seen what that one has

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
        return self._send_error(SyncAuthFailed("no connect message came in time"), None, now_us)

    def token_expired(self, now_us: int) -> Sequence[Immediate]:
        return self._send_error(SyncAuthFailed("the token has expired"), None, now_us)

    # Submitting

    def submitted(self, reply: PendingReply) -> None:
        """The drafts are in the log's queue: their reply has its place in the order."""
        self._replies.append(reply)

    def committed(self, reply: PendingReply, results: Sequence[Result], now_us: int) -> Sequence[Immediate]:
        """The drafts have their results, be they committed or rejected."""
        if not self.feed.live:  # events of its own must not come back when the feed reads from the log
            self.feed.own_ids.update(result.committed_id for result in results if result.committed_id is not None)
        if reply.single:
            reply.message = Send(encode_single_result(results[0], now_us, reply.msg_id))
        else:
            reply.message = Send(encode_results(results, now_us, reply.msg_id))
        return self._take_ready_replies()

    def submit_failed(self, reply: PendingReply, error: BaseException, now_us: int) -> Sequence[Immediate]:
        failure = SyncError("the submit could not be stored; send it again", phase="submit")
        if isinstance(error, MainstemError):
            failure = translate(error, "submit")
        reply.message = Send(encode_error(failure, now_us, reply.msg_id))
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
        """What waited for them goes on: a `sync`, or a `disconnect`."""
        return (Close(1000, ""),) if self._sync is None else (CatchUp(),)

    # Syncing

    def _accept_sync(self, request: SyncRequest, now_us: int) -> Effects:
        if request.subscriptions is None and self.options.implicit_subscriptions:
            request = msgspec.structs.replace(request, subscriptions=request.partitions)
        for name in (*request.partitions, *(request.subscriptions or ())):
            if not self.identity.may_use(name):
                return self._refuse(SyncForbidden(f"{name!r} is not allowed"), now_us)
        self._sync = request
        return (AwaitReplies(),)

    def caught_up(self, head: int, now_us: int) -> Effects:
        """`head` is the newest committed id that was broadcast."""
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
        """Whether to send a broadcast that is offered. (No effects: this runs once per event and connection.)"""
        return self.feed.live and record.origin != self.number

    def fell_behind(self, committed_id: int) -> Sequence[Immediate]:
        """The client does not read fast enough: what comes after this event is read from the log."""
        self.feed.pause(committed_id)
        return (FeedFromLog(),)

    def feed_failed(self, error: SyncError) -> Sequence[Immediate]:
        return (self._close(error),)

    # Ending

    def shut_down(self) -> Sequence[Immediate]:
        """The server stops. What was sent before is still answered."""
        return (Close(1000, ""),)

    def disconnected(self) -> Sequence[Immediate]:
        """The connection is gone."""
        self.state = State.CLOSED
        return (Unsubscribe(list(self.feed.subscriptions)),)

    def _close(self, error: SyncError) -> Close:
        self.state = State.CLOSED
        return Close(close_code(error), error.code)

    # Replies

    def _refuse(self, error: SyncError, now_us: int) -> Sequence[Immediate]:
        return self._send_error(error, self._msg_id, now_us)

    def _send_error(self, error: SyncError, msg_id: str | int | None, now_us: int) -> Sequence[Immediate]:
        message = self._reply(Send(encode_error(error, now_us, msg_id)))
        return [*message, self._close(error)] if error.closes else message

    def _send(self, type_: str, payload: Any, now_us: int) -> Sequence[Immediate]:
        return self._reply(Send(encode_message(type_, payload, now_us, self._msg_id)))

    def _reply(self, message: Send) -> Sequence[Immediate]:
        """Send it now, or after the replies that wait."""
        if not self._replies:
            return (message,)
        reply = PendingReply(None)
        reply.message = message
        self._replies.append(reply)
        return ()
