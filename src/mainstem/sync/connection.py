"""One sync connection: carries out the effects of its session on the log, the hub and the socket."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import assert_never

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError, SyncError
from mainstem.log.records import Record
from mainstem.long_work import run_long
from mainstem.sync.commands import Item, Result, Submit
from mainstem.sync.hub import Hub
from mainstem.sync.pages import PageReader
from mainstem.sync.protocol.drafts import prepare_items
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
from mainstem.sync.protocol.messages import parse_envelope
from mainstem.sync.protocol.requests import SubmitRequest, decode_request
from mainstem.sync.protocol.session import Session, SessionOptions
from mainstem.sync.send_queue import SendQueue
from mainstem.sync.throttling import TokenBucket
from mainstem.sync.validation.validators import Validator
from mainstem.traces import SubmitTrace, name_error

logger = logging.getLogger(__name__)
connection_numbers = count(1)

UNEXPECTED = "an unexpected error occurred on the server; connect again, and see the server's log"
VerifyTokens = Callable[[str], Awaitable[Identity]]


class SubmitCaller(msgspec.Struct, eq=False):
    """Passes the outcome of a submit from the log to the session. To the log it looks like a future."""

    connection: "SyncConnection"
    reply: PendingReply
    trace: SubmitTrace | None = None

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return self.reply.message is not None

    def set_result(self, results: tuple[Result, ...]) -> None:
        connection = self.connection
        connection.count_results(results)
        if self.trace is not None:
            self.trace.end()
        connection.settle(self.reply, connection.session.committed(self.reply, results, connection.log.clock_us()))

    def set_exception(self, error: BaseException) -> None:
        connection = self.connection
        if self.trace is not None:
            self.trace.end(name_error(error))
        connection.settle(self.reply, connection.session.submit_failed(self.reply, error, connection.log.clock_us()))


class SyncConnection:
    def __init__(
        self,
        hub: Hub,
        pages: PageReader,
        verify_token: VerifyTokens,
        send_queue: SendQueue,
        *,
        validate: Validator | None,
        options: SessionOptions,
        address: str | None = None,
    ) -> None:
        self.hub = hub
        self.log = hub.log
        self.pages = pages
        self.verify_token = verify_token
        self.send_queue = send_queue
        self.validate = validate
        self.session = Session(next(connection_numbers), options)
        self.address = address
        """Where the client is; behind proxies that the server trusts, the address that they report."""
        self.connected_at_us = self.log.clock_us()
        self.submitted = 0
        """How many drafts were passed to the log."""
        self.received = 0
        """How many broadcasts were sent."""
        self.connected = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.closing: asyncio.Future[Close] = self._loop.create_future()
        self._no_replies_waiting = asyncio.Event()
        self._no_replies_waiting.set()
        self._feeder: asyncio.Task[None] | None = None
        self._message_rate = TokenBucket(self._loop.time())
        metrics = self.log.metrics
        self._committed, self._rejected = metrics.submits.of("committed"), metrics.submits.of("rejected")
        self._broadcasts = metrics.broadcasts.of()

    # Messages

    async def ready(self) -> None:
        """Return when the next message may be read. Until then the socket is not read, so its sender has to wait."""
        if self.send_queue.is_full:
            await self.send_queue.drained()  # do not read from a client that does not read its replies
        if self.session.replies_waiting >= limits.SYNC_REPLIES_WAITING_MAX:
            await self._no_replies_waiting.wait()
        while delay_s := self._message_rate.take(self._loop.time()):  # noqa: ASYNC110 - only time can end this wait
            await asyncio.sleep(delay_s)

    async def receive(self, text: bytes) -> None:
        """Process one message with all its effects, except that the outcome of a submit arrives later."""
        session = self.session
        msg_id: str | int | None = None
        try:
            if len(text) <= limits.SYNC_INLINE_BYTES_MAX:
                envelope, placeholder = parse_envelope(text)
            else:
                envelope, placeholder = await run_long(parse_envelope, text)
            msg_id = envelope.msg_id
            await self._perform(session.receive(envelope, placeholder, self.log.clock_us()))
        except MainstemError as error:
            self.apply(session.fail(error, msg_id, self.log.clock_us()))
        except Exception:
            logger.exception("an unexpected error occurred while a sync message was processed")
            unexpected = SyncError(UNEXPECTED, phase="handling")
            self.apply(session.fail(unexpected, msg_id, self.log.clock_us()))

    def refuse(self, error: SyncError) -> None:
        """Send an error for input that could not be read as a message."""
        self.apply(self.session.fail(error, None, self.log.clock_us()))

    async def _perform(self, effects: Effects) -> None:
        """Carry out effects, and then the effects that follow from their results."""
        session, log = self.session, self.log
        while effects:
            following: Effects = ()
            for effect in effects:
                match effect:
                    case Decode():
                        if len(effect.envelope.payload) <= limits.SYNC_INLINE_BYTES_MAX:
                            request = decode_request(effect.envelope, effect.placeholder)
                        else:
                            request = await run_long(decode_request, effect.envelope, effect.placeholder)
                        following = session.decoded(request, log.clock_us())
                    case SubmitDrafts():
                        await self._submit(effect)
                    case AwaitReplies():
                        await self._no_replies_waiting.wait()
                        following = session.replies_sent()
                    case CatchUp():
                        await log.catch_up()
                        following = session.caught_up(self.hub.head, log.clock_us())
                    case ReadPage():
                        page = await self.pages.read(effect.cycle, effect.since, effect.limit)
                        log.metrics.sync_pages.of().add()
                        following = session.page_read(page, log.clock_us())
                    case VerifyToken():
                        following = await self._verify(effect.token)
                    case _:
                        self.apply((effect,))
            effects = following

    def apply(self, effects: Iterable[Immediate]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if effect.error_code:
                        self.log.metrics.sync_errors.of(effect.error_code).add()
                    self.send_queue.put(effect)
                case Subscribe():
                    self.hub.subscribe(self, effect.partitions)
                case Unsubscribe():
                    self.hub.unsubscribe(self, effect.partitions)
                case FeedFromLog():
                    if self._feeder is None or self._feeder.done():
                        self._feeder = asyncio.create_task(self._feed_from_log())
                case WatchExpiry():
                    self.connected.set()
                case Close():
                    if not self.closing.done():
                        self.closing.set_result(effect)
                case _:
                    assert_never(effect)

    async def _verify(self, token: str) -> Effects:
        try:
            identity = await self.verify_token(token)
        except MainstemError as error:
            return self.session.verification_failed(error, self.log.clock_us())
        return self.session.verified(identity, self.log.clock_us())

    # Submitting

    async def _submit(self, effect: SubmitDrafts) -> None:
        session, request = self.session, effect.request
        quota = self.hub.draft_quota
        if not quota.try_acquire(session.client_id, effect.reply.drafts):
            await quota.acquire(session.client_id, effect.reply.drafts)
        trace = None if self.log.tracer is None else self.log.tracer.begin_submit(effect.reply.drafts)
        try:
            if request.size <= limits.SYNC_INLINE_BYTES_MAX:
                items = self._prepare_items(request)
            else:
                items = await run_long(self._prepare_items, request)
            command = Submit(items, session.client_id, session.number, self.validate)
            self.log.enqueue(command, SubmitCaller(self, effect.reply, trace), trace)
        except BaseException as error:
            quota.release(session.client_id, effect.reply.drafts)
            if trace is not None:
                trace.end(name_error(error))
            raise
        self.submitted += effect.reply.drafts
        session.submitted(effect.reply)
        self._no_replies_waiting.clear()

    def _prepare_items(self, request: SubmitRequest) -> tuple[Item, ...]:
        session = self.session
        return prepare_items(
            request.drafts,
            session.identity,
            request.placeholder,
            keep_values=self.validate is not None,
            uuids_only=session.options.uuids_only,
        )

    def count_results(self, results: Sequence[Result]) -> None:
        rejected = len([result for result in results if result.committed_id is None])
        self._rejected.value += rejected
        self._committed.value += len(results) - rejected

    def settle(self, reply: PendingReply, effects: Iterable[Immediate]) -> None:
        """Apply the effects of a submit's outcome and release its share of the draft quota."""
        self.hub.draft_quota.release(self.session.client_id, reply.drafts)
        self.apply(effects)
        if not self.session.replies_waiting:
            self._no_replies_waiting.set()

    # Broadcasts

    def offer(self, record: Record, message: Send) -> None:
        """Send a newly committed event, if the session takes it. The hub calls this."""
        if not self.session.takes(record):
            return
        self.received += 1
        self._broadcasts.value += 1
        if self.send_queue.put(message):
            self.apply(self.session.fell_behind(record.committed_id))

    async def _feed_from_log(self) -> None:
        try:
            while await self._feed_some():
                pass
        except MainstemError as error:
            self.apply(self.session.feed_failed(SyncError(error.detail, phase="delivery")))
        except Exception:
            logger.exception("an unexpected error occurred while events were read for a sync connection")
            failure = SyncError(UNEXPECTED, phase="delivery")
            self.apply(self.session.feed_failed(failure))

    async def _feed_some(self) -> bool:
        await self.send_queue.drained()
        feed = self.session.feed
        read = feed.next_read(self.hub.head)
        if read is None:
            return False
        records = await self.log.store.read_tagged(
            read.partitions, read.after, read.until, limits.FEED_EVENTS, limits.SEND_QUEUE_BYTES_MAX
        )
        broadcasts = feed.events_read(read, records)
        self.received += len(broadcasts)
        self._broadcasts.value += len(broadcasts)
        self.apply(broadcasts)
        return True

    # Ending

    async def finish(self) -> None:
        """Return when all pending replies have been sent."""
        await self._no_replies_waiting.wait()
        await self.send_queue.drained()

    def close(self) -> None:
        """Release everything that the connection holds."""
        self.apply(self.session.disconnected())
        if self._feeder is not None:
            self._feeder.cancel()
