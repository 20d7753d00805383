"""One WebSocket connection: messages in, commands to the log, replies and broadcasts out.

Submits are pipelined: they wait in the log while the next message is read, and their replies leave in request order. A
`sync` waits for the submits before it, so it sees them. Messages are taken one after the other, also while a large one
is examined in a thread, so none overtakes another.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, ParamSpec, TypeVar

import msgspec

from mainstem import limits
from mainstem.access import EVERYBODY, Identity
from mainstem.errors import (
    MainstemError,
    SyncAuthFailed,
    SyncBadRequest,
    SyncError,
    SyncForbidden,
    SyncRateLimited,
    Unavailable,
)
from mainstem.log.records import CommittedId, Record
from mainstem.long_work import run_sized
from mainstem.sync.commands import Result, Submit
from mainstem.sync.hub import Hub, Outgoing, broadcast
from mainstem.sync.outbox import Outbox
from mainstem.sync.pacing import Pace
from mainstem.sync.pages import SyncPages
from mainstem.sync.protocol import submit
from mainstem.sync.protocol.messages import (
    ConnectPayload,
    Envelope,
    EventPayload,
    OversizeMessage,
    SyncPayload,
    encode_error,
    encode_message,
    parse_envelope,
    parse_payload,
    stored_partitions,
)
from mainstem.sync.protocol.partitions import normalise_filter
from mainstem.sync.protocol.session import Cycle, Feed, State, admit, clamp_limit
from mainstem.sync.validation.validators import Validator
from mainstem.timestamps import format_time

logger = logging.getLogger(__name__)
numbers = count(1)

P = ParamSpec("P")
T = TypeVar("T")
Identify = Callable[[str], Awaitable[Identity]]
CLOSE_CODES = {"auth_failed": 1008, "server_error": 1011, "protocol_version_unsupported": 1002}
CAPABILITIES = ["submit_events", "submit_event", "sync", "broadcast", "snapshots"]


class Reply:
    """A place in the line of replies. Whatever comes later waits until it is filled."""

    __slots__ = ("connection", "items", "msg_id", "payload", "single")

    def __init__(self, connection: "SyncConnection", msg_id: str | int | None, items: int, single: bool) -> None:
        self.connection = connection
        self.msg_id = msg_id
        self.items = items
        self.single = single
        self.payload: bytes | None = None

    # What the log needs of a waiting caller

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return self.payload is not None

    def set_result(self, results: tuple[Result, ...]) -> None:
        self.connection.note_own(results)
        now_us = self.connection.log.clock_us()
        if self.single:
            self.payload = encode_single(results[0], now_us, self.msg_id)
        else:
            body = {"results": [describe_result(result) for result in results]}
            self.payload = encode_message("submit_events_result", body, now_us, self.msg_id)
        self.connection.settle(self)

    def set_exception(self, error: BaseException) -> None:
        fault = SyncError("the submit could not be stored; send it again", phase="submit")
        if isinstance(error, MainstemError):
            fault = translate(error, "submit")
        self.payload = encode_error(fault, self.connection.log.clock_us(), self.msg_id)
        self.connection.settle(self)
        if fault.closes:
            self.connection.close_soon(fault)


def translate(error: MainstemError, phase: str) -> SyncError:
    """An error of the log in the words of the protocol: what a retry can mend keeps the connection open."""
    if error.retryable:
        return SyncRateLimited(error.detail, retry_after_ms=limits.RETRY_AFTER_S * 1000)
    return SyncError(error.detail, phase=phase)


def describe_result(result: Result) -> dict[str, Any]:
    at = format_time(result.status_updated_at)
    if result.status == "committed":
        return {
            "id": result.id,
            "status": "committed",
            "committed_id": result.committed_id,
            "status_updated_at": at,
        }
    return {
        "id": result.id,
        "status": "rejected",
        "reason": result.reason,
        "errors": [submit.as_dict(error) for error in result.errors],
        "status_updated_at": at,
    }


def encode_single(result: Result, now_us: int, msg_id: str | int | None) -> bytes:
    """The answers of the older generation to `submit_event`."""
    type_ = "event_committed" if result.status == "committed" else "event_rejected"
    return encode_message(type_, describe_result(result), now_us, msg_id)


def read_filters(payload: SyncPayload, mark: str | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The partitions of a `sync`, and the subscriptions that it asks for, if it does."""
    wanted = payload.subscription_partitions
    submit.check_names([*payload.partitions, *(wanted or ())], mark)
    return normalise_filter(payload.partitions), None if wanted is None else normalise_filter(wanted)


class SyncConnection:
    def __init__(
        self,
        hub: Hub,
        pages: SyncPages,
        identify: Identify,
        outbox: Outbox,
        *,
        implicit: bool,
        validate: Validator | None,
        uuids: bool,
    ) -> None:
        self.hub = hub
        self.log = hub.log
        self.pages = pages
        self.identify = identify
        self.outbox = outbox
        self.implicit = implicit
        self.validate = validate
        self.uuids = uuids
        self.number = next(numbers)
        self.state = State.AWAIT_CONNECT
        self.connected = asyncio.Event()
        self.identity = Identity()
        self.client_id = ""
        self.feed = Feed(hub.seen)
        self._loop = asyncio.get_running_loop()
        self.closing: asyncio.Future[SyncError | None] = self._loop.create_future()
        self._line: deque[Reply | Outgoing] = deque()
        self._line_empty = asyncio.Event()
        self._line_empty.set()
        self._feeder: asyncio.Task[None] | None = None
        self._pace = Pace(self._loop.time())

    def close(self) -> None:
        """The connection is gone: nothing of it stays."""
        self.state = State.CLOSED
        self.hub.unsubscribe(self, list(self.feed.subscriptions))
        if self._feeder is not None:
            self._feeder.cancel()

    def close_soon(self, error: SyncError | None) -> None:
        if not self.closing.done():
            self.closing.set_result(error)

    # In

    async def ready(self) -> None:
        """Return when the next message may be read. Until then the socket is left alone, and its sender waits."""
        if self.outbox.is_full:
            await self.outbox.drained()  # who does not read its replies is not read from either
        if len(self._line) >= limits.SYNC_REPLIES_WAITING_MAX:
            await self._line_empty.wait()
        while delay_s := self._pace.take(self._loop.time()):  # noqa: ASYNC110 - time is what it waits for
            await asyncio.sleep(delay_s)

    async def receive(self, text: bytes) -> None:
        """One message. Bad input is answered, never met with a bare close."""
        msg_id: str | int | None = None
        try:
            envelope, mark = await self._examine(len(text), parse_envelope, text)
            msg_id = envelope.msg_id
            self._check_expiry()
            admit(self.state, envelope.type)
            await self._handle(envelope, mark)
        except SyncError as error:
            self._answer_error(error, error.msg_id if msg_id is None else msg_id)
        except MainstemError as error:
            self._answer_error(translate(error, "storage"), msg_id)
        except Exception:
            logger.exception("a sync message failed unexpectedly")
            self._answer_error(SyncError("something unexpected went wrong", phase="handling"), msg_id)

    @staticmethod
    async def _examine(size: int, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Look into a message of this size; off the event loop if that can take long."""
        return await run_sized(size, limits.SYNC_INLINE_BYTES_MAX, look, *args, **kwargs)

    def refuse(self, error: SyncError) -> None:
        """Answer what is not even a message."""
        self._answer_error(error, None)

    def end(self, error: SyncError) -> None:
        """The server ends the connection, for reasons of its own."""
        self._answer_error(error, None)

    def _answer_error(self, error: SyncError, msg_id: str | int | None) -> None:
        self._reply(Outgoing(encode_error(error, self.log.clock_us(), msg_id)))
        if error.closes:
            self.state = State.CLOSED
            self.close_soon(error)

    def _check_expiry(self) -> None:
        if self.state is State.ACTIVE and self.identity.has_expired(self.log.clock_us()):
            raise SyncAuthFailed("the token has expired")

    async def _handle(self, envelope: Envelope, mark: str | None) -> None:
        payload = await self._examine(len(envelope.payload), parse_payload, envelope)
        if envelope.type == "submit_events":
            await self._submit(payload.events, envelope, mark, single=False)
        elif envelope.type == "submit_event":
            await self._submit([payload], envelope, mark, single=True)
        elif envelope.type == "sync":
            await self._sync(payload, envelope, mark)
        elif envelope.type == "heartbeat":
            self._send("heartbeat_ack", {}, envelope.msg_id)
        elif envelope.type == "connect":
            await self._connect(payload, envelope.msg_id)
        else:
            self.state = State.CLOSED
            await self._line_empty.wait()
            self.close_soon(None)

    async def _connect(self, payload: ConnectPayload, msg_id: str | int | None) -> None:
        if not payload.client_id or len(payload.client_id.encode()) > limits.CLIENT_ID_BYTES_MAX:
            raise SyncBadRequest(f"client_id is 1 to {limits.CLIENT_ID_BYTES_MAX} bytes")
        try:
            identity = await self.identify(payload.token)
        except Unavailable as error:
            raise SyncError(error.detail, phase="connect") from None
        except MainstemError as error:
            raise SyncAuthFailed(error.detail) from None
        if identity is not EVERYBODY and identity.client_id != payload.client_id:
            raise SyncAuthFailed("the token is for another client_id, or for none")
        if identity.has_expired(self.log.clock_us()):
            raise SyncAuthFailed("the token has expired")
        await self.log.catch_up()  # the client may come from another node, and has seen what that one has
        self.identity = identity
        self.client_id = payload.client_id
        self.state = State.ACTIVE
        self.connected.set()
        self.feed = Feed(self.hub.seen)
        self._send("connected", self._welcome(), msg_id)

    def _welcome(self) -> dict[str, Any]:
        return {
            "client_id": self.client_id,
            "server_time": format_time(self.log.clock_us()),
            "server_last_committed_id": self.hub.seen,
            "global_last_committed_id": self.hub.seen,
            "capabilities": CAPABILITIES,
            "event_ids": "uuid" if self.uuids else "any",
            "limits": {
                "message_bytes_max": limits.SYNC_MESSAGE_BYTES_MAX,
                "batch_items_max": limits.SYNC_BATCH_ITEMS_MAX,
                "drafts_max": limits.SYNC_DRAFTS_MAX,
                "messages_per_second_max": limits.SYNC_MESSAGES_S_MAX,
                "sync_limit_min": limits.SYNC_PAGE_MIN,
                "sync_limit_max": limits.SYNC_PAGE_MAX,
            },
        }

    # Submitting

    async def _submit(self, events: list[EventPayload], envelope: Envelope, mark: str | None, *, single: bool) -> None:
        await self._examine(len(envelope.payload), submit.check_shape, events)
        await self.hub.drafts.take(self.client_id, len(events))
        try:
            items = await self._examine(
                len(envelope.payload),
                submit.judge_all,
                events,
                self.identity,
                mark,
                decoded=self.validate is not None,
                uuids=self.uuids,
            )
            reply = Reply(self, envelope.msg_id, len(items), single)
            self.log.enqueue(Submit(items, self.client_id, self.number, self.validate), reply)
        except BaseException:
            self.hub.drafts.give_back(self.client_id, len(events))
            raise
        self._line.append(reply)
        self._line_empty.clear()

    def note_own(self, results: tuple[Result, ...]) -> None:
        """Its own events must not come back, also if it subscribes to their partitions only later in a cycle."""
        if not self.feed.live:
            self.feed.own.update(result.committed_id for result in results if result.committed_id is not None)

    def settle(self, reply: Reply) -> None:
        """A submit has its outcome: let every reply go whose turn it is."""
        self.hub.drafts.give_back(self.client_id, reply.items)
        self._advance()

    def _advance(self) -> None:
        line = self._line
        while line:
            first = line[0]
            if isinstance(first, Reply):
                if first.payload is None:
                    return
                self.outbox.put(Outgoing(first.payload))
            else:
                self.outbox.put(first)
            line.popleft()
        self._line_empty.set()

    # Syncing

    async def _sync(self, payload: SyncPayload, envelope: Envelope, mark: str | None) -> None:
        if payload.since_committed_id < 0:
            raise SyncBadRequest("since_committed_id is an integer from 0 on")
        partitions, subscriptions = await self._examine(len(envelope.payload), read_filters, payload, mark)
        if subscriptions is None and self.implicit:
            subscriptions = partitions
        for name in (*partitions, *(subscriptions or ())):
            if not self.identity.may_use(name):
                raise SyncForbidden(f"{name!r} is not allowed")
        await self._line_empty.wait()
        await self.log.catch_up()
        since = payload.since_committed_id
        cycle = self._begin_or_continue(partitions, since)
        if subscriptions is not None:
            self._replace_subscriptions(subscriptions, cycle.until)
        page = await self.pages.read(cycle, since, clamp_limit(payload.limit))
        self.feed.cycle = msgspec.structs.replace(cycle, next_since=page.next_since, told=page.told)
        body = page.describe(list(self.feed.subscriptions))
        self._send("sync_response", body, envelope.msg_id)
        if not page.has_more:
            self.feed.end_cycle()
            self._catch_up()

    def _begin_or_continue(self, partitions: tuple[str, ...], since: int) -> Cycle:
        cycle = self.feed.cycle
        if cycle is not None and cycle.is_continued_by(partitions, since):
            return cycle
        if cycle is not None:
            self.feed.abandon_cycle()
        cycle = Cycle(partitions, since, self.hub.seen, since)
        self.feed.begin_cycle(cycle, self.hub.seen)
        return cycle

    def _replace_subscriptions(self, partitions: tuple[str, ...], since: int) -> None:
        added, dropped = self.feed.replace_subscriptions(partitions, since)
        self.hub.subscribe(self, added)
        self.hub.unsubscribe(self, dropped)

    # Broadcasts

    def offer(self, record: Record, message: Outgoing) -> None:
        """The hub has a new event for this connection."""
        feed = self.feed
        if feed.live and record.origin != self.number:
            self.outbox.put(message)
            if self.outbox.is_full:
                feed.pause(record.committed_id)
                self._catch_up()

    def _catch_up(self) -> None:
        """Feed this connection from the log until it is live again."""
        if self._feeder is None or self._feeder.done():
            self._feeder = asyncio.create_task(self._feed_from_log())

    async def _feed_from_log(self) -> None:
        try:
            while await self._feed_some():
                pass
        except MainstemError as error:
            self.close_soon(SyncError(error.detail, phase="delivery"))
        except Exception:
            logger.exception("a connection could not be fed from the log")
            self.close_soon(SyncError("something unexpected went wrong", phase="delivery"))

    async def _feed_some(self) -> bool:
        feed = self.feed
        await self.outbox.drained()
        if feed.cycle is not None or feed.live:
            return False
        until = self.hub.seen
        if feed.cursor >= until or not feed.subscriptions:
            feed.resume()
            return False
        records = await self.log.store.read_tagged(
            list(feed.subscriptions),
            CommittedId(feed.cursor),
            CommittedId(until),
            limits.FEED_EVENTS,
            limits.OUTBOX_BYTES_MAX,
        )
        if feed.cycle is not None:
            return False  # a sync began meanwhile: its end starts the feeding again
        for record in records:
            if feed.wants(stored_partitions(record.data), record.committed_id):
                self.outbox.put(broadcast(record))
            feed.own.discard(record.committed_id)
        feed.cursor = records[-1].committed_id if records else until
        return True

    # Out

    def _send(self, type_: str, payload: Any, msg_id: str | int | None) -> None:
        self._reply(Outgoing(encode_message(type_, payload, self.log.clock_us(), msg_id)))

    def _reply(self, message: Outgoing) -> None:
        if self._line:
            self._line.append(message)
        else:
            self.outbox.put(message)

    async def finish(self, error: SyncError | None) -> int:
        """Let what is ready leave, and say with which code to close."""
        await self._line_empty.wait()
        await self.outbox.drained()
        if error is None:
            return 1000
        return 1009 if isinstance(error, OversizeMessage) else CLOSE_CODES.get(error.code, 1008)
