"""The dispatcher: follows the log, wakes subscriptions whose streams have new data, and manages leases and retries.

It follows the commit log in memory, and after a restart checks each stream that is newer than the oldest subscription
once. On a shared log, every node follows, so that workers can use any node, but only the leader wakes them. A wake is a
command, so its streams and its lease are durable before the worker is notified.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from mainstem import limits
from mainstem.errors import MainstemError, SubscriptionNotFound
from mainstem.log.commands import Key, State
from mainstem.log.commit import CommitLog
from mainstem.log.records import Record
from mainstem.metrics.catalogue import Metrics
from mainstem.streams.rules.base64url import encode_base64url
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import STREAMS
from mainstem.streams.subscriptions.core.controls import CursorMove, Redeliver
from mainstem.streams.subscriptions.core.model import (
    LINKS,
    SUBSCRIPTIONS,
    Status,
    Subscription,
    split_link,
    subscription_key,
)
from mainstem.streams.subscriptions.core.pending import PendingStreams
from mainstem.streams.subscriptions.core.signing import KEYRINGS
from mainstem.streams.subscriptions.core.wakes import (
    Acknowledge,
    Candidate,
    Claim,
    ExpireLease,
    FencingToken,
    RetryDelivery,
    Wake,
    WakeResult,
)
from mainstem.streams.subscriptions.cursors import Lag, LagMeter, StreamCursor, list_cursors
from mainstem.streams.subscriptions.link_queries import (
    drop_links,
    find_candidates,
    find_implied_start,
    find_up_to_date,
    read_snapshot,
)
from mainstem.streams.subscriptions.signing_keys import SigningKeys
from mainstem.streams.subscriptions.webhook_client import WebhookClient
from mainstem.streams.subscriptions.webhook_sender import WebhookSender

logger = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, log: CommitLog, client: WebhookClient) -> None:
        self.log = log
        self.keys = SigningKeys(log)
        self.webhooks = WebhookSender(log, client, self.keys, self._acknowledge_all, self._is_wanted)
        self.wakes: Counter[str] = Counter()
        """The number of wakes that this node has begun, by the type of the subscription."""
        self._changed = asyncio.Event()
        self._pending = PendingStreams(self._changed.set)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._was_leader = False
        self._lag = LagMeter(log, self._pending)
        self._changed_while_loading: set[Key] | None = None
        """The keys that changed during a load, whose states are newer than what the load finds."""

    # Lifecycle

    async def start(self) -> None:
        await self.keys.ensure()
        self.log.store.watch_spaces(STREAMS, SUBSCRIPTIONS, LINKS, KEYRINGS)
        self.log.observers.append(self._observe)
        self.log.resets.append(self._reset)
        self._was_leader = self.log.store.is_leader
        await self._load()
        jobs = [self._follow(), self._watch_deadlines(), self.keys.watch()]
        if self.log.store.shared:
            jobs.append(self._review_periodically())
        for job in jobs:
            self._spawn(job)
        self._publish_measures(self.log.metrics)

    async def stop(self) -> None:
        self.log.observers.remove(self._observe)
        self.log.resets.remove(self._reset)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _publish_measures(self, metrics: Metrics) -> None:
        metrics.subscriptions.read = lambda: [((status,), count) for status, count in self.statuses.items()]
        metrics.wakes.read = lambda: [((type_,), count) for type_, count in self.wakes.items()]
        metrics.webhook_attempts.read = lambda: [
            ((outcome.value,), count) for outcome, count in self.webhooks.outcomes.items()
        ]
        metrics.subscriptions_behind.read_with(self.count_behind)
        metrics.oldest_wake_seconds.read_with(self._oldest_wake_s)

    def _oldest_wake_s(self) -> float:
        since_us = self.oldest_unacknowledged_us()
        return 0.0 if since_us is None else max(self.log.clock_us() - since_us, 0) / 1_000_000

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(job)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _load(self) -> None:
        """Load all subscriptions and links, and check every stream once for new data."""
        changed: set[Key] = set()
        self._changed_while_loading = changed
        try:
            await self._load_subscriptions(changed)
            await self._load_links(changed)
            await self._load_streams()
        finally:
            self._changed_while_loading = None

    async def _load_subscriptions(self, changed: set[Key]) -> None:
        after = ""
        while page := await self.log.store.scan(SUBSCRIPTIONS, "", after, limits.SCAN_PAGE):
            for name, state in page:
                if subscription_key(name) not in changed:
                    self._note_subscription(name, state)
            after = page[-1][0]

    async def _load_links(self, changed: set[Key]) -> None:
        after = ""
        orphans: set[str] = set()
        while page := await self.log.store.scan(LINKS, "", after, limits.SCAN_PAGE):
            for name, link in page:
                nonce, _ = split_link(name)
                if self._pending.has_nonce(nonce):
                    if Key(LINKS, name) not in changed:
                        self._pending.note_link(name, link)
                elif self.log.store.is_leader:
                    orphans.add(nonce)
            after = page[-1][0]
        for nonce in orphans:
            self._spawn(drop_links(self.log, nonce))

    async def _load_streams(self) -> None:
        oldest = self._pending.oldest_id()
        if oldest is None:
            return
        after = ""
        while page := await self.log.store.scan(STREAMS, "", after, limits.SCAN_PAGE):
            self._pending.add_unmatched(
                path for path, stream in page if stream.last_id > oldest or self._pending.has_explicit(path)
            )
            after = page[-1][0]
        self._pending.make_ready(self._pending.subscriptions)

    def _reset(self) -> None:
        """Forget everything and load it again, because changes made by other nodes were missed."""
        self._pending.forget_all()
        self._spawn(self._reload())

    async def _reload(self) -> None:
        while True:
            try:
                await self.keys.reload()
                await self._load()
                return
            except MainstemError as error:
                logger.warning("loading subscriptions failed and will be retried: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)

    # Following the log, and waking

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        pending = self._pending
        for key, state in changes.items():
            if key.space is STREAMS:
                if pending.subscriptions:  # without any, spare appends even the call
                    pending.note_change(key.name)
            elif key.space is SUBSCRIPTIONS:
                self._note_subscription(key.name, state)  # type: ignore[arg-type]
            elif key.space is LINKS:
                pending.note_link(key.name, state)  # type: ignore[arg-type]
            elif key.space is KEYRINGS and state is not None:
                self.keys.ring = state  # type: ignore[assignment]
        if self._changed_while_loading is not None:
            self._changed_while_loading.update(changes)

    def _note_subscription(self, name: str, state: Subscription | None) -> None:
        ended = self._pending.note_subscription(name, state)
        if ended is not None and self.log.store.is_leader:
            self._spawn(drop_links(self.log, ended))

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._match_changes()
                if self._pending.unmatched_count:
                    self._changed.set()  # the next round handles what has changed in the meantime
                if self.log.store.is_leader:
                    await self._wake_ready()
            except MainstemError as error:
                logger.warning("waking subscriptions failed and will be retried: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()
            except Exception:
                logger.exception("waking subscriptions failed and will be retried")
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()

    async def _match_changes(self) -> None:
        """Find the subscriptions to all streams that have changed so far, in steps that do not block the event loop."""
        pending = self._pending
        until = pending.matched_count + pending.unmatched_count
        while not pending.match_changes(limits.GLOB_TRIES_AT_ONCE) and pending.matched_count < until:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _wake_ready(self) -> None:
        while names := self._pending.take_ready(limits.WAKES_AT_ONCE):
            try:
                await asyncio.gather(*(self._wake(name) for name in names))
            except BaseException:
                self._pending.make_ready(names)
                raise

    async def _wake(self, name: str) -> None:
        state = self._pending.idle_with_pending(name)
        if state is None:
            return
        since = self._pending.change_count
        candidates = await self._candidates(name)
        wake = Wake(name, state.nonce, self._new_wake_id(), candidates, state.config.wake_stream)
        woken = await self.log.submit(wake)
        if woken is None:
            return
        self._pending.clear_pending(name, woken.up_to_date, since)
        if not woken.streams:
            return
        self.wakes[state.config.type] += 1
        if state.config.type == "webhook":
            self._spawn(self.webhooks.deliver(name, woken.state, woken.streams))

    async def _candidates(self, name: str) -> tuple[Candidate, ...]:
        state = self._pending.subscriptions.get(name)
        if state is None:
            raise SubscriptionNotFound(f"the subscription {name!r} does not exist")
        return await find_candidates(self.log.store, state, self._pending.paths(name)[: limits.WAKE_STREAMS_MAX])

    def _is_wanted(self, name: str, woken: Subscription) -> bool:
        state = self._pending.subscriptions.get(name)
        return state is not None and state.wake_id == woken.wake_id and not state.paused

    def _new_wake_id(self) -> str:
        return "w_" + encode_base64url(self.log.random.randbytes(16))

    # Requests of workers

    async def find(self, name: str) -> Subscription:
        state: Subscription | None = await self.log.store.get(subscription_key(name))
        if state is None:
            raise SubscriptionNotFound(f"the subscription {name!r} does not exist")
        return state

    def knows(self, name: str) -> bool:
        return name in self._pending.subscriptions

    def count_owned(self, owner: str | None) -> int:
        return self._pending.owned[owner]

    async def claim(self, name: str, worker: str) -> tuple[WakeResult, str]:
        state = await self.find(name)
        await self._match_changes()  # so that the claim includes everything appended before it
        since = self._pending.change_count
        candidates = await self._candidates(name)
        woken = await self.log.submit(Claim(name, state.nonce, worker, self._new_wake_id(), candidates))
        self._pending.clear_pending(name, woken.up_to_date, since)
        return woken, self.keys.token(name, woken.state)

    async def acknowledge(
        self,
        name: str,
        fencing: FencingToken,
        acks: tuple[tuple[str, Offset], ...],
        done: bool,
        *,
        of_snapshot: bool = False,
    ) -> bool:
        await self._match_changes()
        since = self._pending.change_count
        candidates = await self._candidates(name) if done else ()
        more = await self.log.submit(Acknowledge(name, fencing, acks, done, candidates, of_snapshot))
        if done:
            # If more is pending, the next wake finds out what. If not, the streams examined here have nothing new.
            looked_at = {path for path, _ in acks} | {candidate.path for candidate in candidates}
            self._pending.clear_pending(name, () if more else looked_at, since)
        state = self._pending.subscriptions.get(name)
        if state is not None and state.paused:
            return False  # whatever is pending, no wake follows
        return more or (done and self._pending.has_paths(name))

    async def _acknowledge_all(self, name: str, state: Subscription) -> None:
        """Acknowledge everything in a wake, because the webhook's response says that it is done."""
        assert state.wake_id is not None
        acks = tuple((path, Offset.parse(offset)) for path, offset in state.snapshot)
        fencing = FencingToken(state.nonce, state.generation, state.generation, state.wake_id)
        await self.acknowledge(name, fencing, acks, True, of_snapshot=True)

    # Requests of operators

    async def redeliver(self, name: str, path: str | None = None, offset: Offset | None = None) -> None:
        """End the current wake, and wake again with everything that was not acknowledged. With a path, first move the
        acknowledged offset of this stream back, to the beginning of the stream if there is no offset."""
        state = await self.find(name)
        move = None
        if path is not None:
            move = CursorMove(path, offset, await find_implied_start(self.log.store, state, path))
        await self.log.submit(Redeliver(name, state.nonce, move))

    async def list_cursors(self, name: str, state: Subscription) -> tuple[list[StreamCursor], bool]:
        """Return how far each linked stream was acknowledged, in the order of their paths, and whether some had to be
        left out. Streams with new data are left out last."""
        return await list_cursors(self.log.store, state, self._pending.paths(name))

    @property
    def statuses(self) -> Counter[Status]:
        """The number of subscriptions per status."""
        return self._pending.statuses

    def count_behind(self) -> int:
        """Return the number of subscriptions with streams that may have new data."""
        return self._pending.count_behind()

    def oldest_unacknowledged_us(self) -> int | None:
        """Return since when the longest waiting subscription has been woken without an acknowledgement. Subscriptions
        that are paused do not count."""
        return self._pending.oldest_unacknowledged_us()

    async def measure_lag(self) -> Lag:
        """Return the lag of all subscriptions, measured at most once in `limits.LAG_MEASURE_S`."""
        return await self._lag.measure()

    # Timers: leases, retries and reviews

    async def _watch_deadlines(self) -> None:
        while True:
            await asyncio.sleep(limits.LEASE_CHECK_S)
            was_leader, self._was_leader = self._was_leader, self.log.store.is_leader
            if not self._was_leader:
                continue
            try:
                if not was_leader:
                    await self._take_over()
                if not self._pending.subscriptions:
                    continue
                # Subscriptions with an open call may be due too, and must not crowd out the others.
                most = limits.WAKES_AT_ONCE + len(self.webhooks.in_flight)
                due = await self.log.store.due(SUBSCRIPTIONS, self.log.clock_us(), most)
                await asyncio.gather(*(self._handle_due(name) for name in due))
            except MainstemError as error:
                logger.warning("checking the leases of subscriptions failed and will be retried: %s", error.detail)
            except Exception:
                logger.exception("checking the leases of subscriptions failed and will be retried")

    async def _take_over(self) -> None:
        """Become the leader: load everything again, to find what the previous leader left undone."""
        try:
            await self._load()
        except BaseException:
            self._was_leader = False
            raise

    async def _handle_due(self, name: str) -> None:
        state = self._pending.subscriptions.get(name)
        if state is None or state.wake_id is None or state.wake_id in self.webhooks.in_flight:
            return
        if state.next_attempt_us is not None:
            again = await self.log.submit(RetryDelivery(name, state.wake_id))
            if again is not None:
                self._spawn(self.webhooks.deliver(name, again, await read_snapshot(self.log.store, again)))
        elif await self.log.submit(ExpireLease(name, state.wake_id)):
            self._pending.make_ready([name])

    async def _review_periodically(self) -> None:
        while True:
            await asyncio.sleep(limits.PENDING_REVIEW_S)
            try:
                if not self.log.store.is_leader:
                    await self._review()
            except MainstemError as error:
                logger.warning("reviewing pending streams failed and will be retried: %s", error.detail)

    async def _review(self) -> None:
        """Forget streams that another node has handled; otherwise they would accumulate here."""
        for name, state in list(self._pending.subscriptions.items()):
            since = self._pending.change_count
            paths = self._pending.paths(name)
            for at in range(0, len(paths), limits.WAKE_STREAMS_MAX):
                up_to_date = await find_up_to_date(self.log.store, state, paths[at : at + limits.WAKE_STREAMS_MAX])
                self._pending.clear_pending(name, up_to_date, since)
