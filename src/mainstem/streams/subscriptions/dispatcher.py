"""The dispatcher: follows the log, wakes subscriptions that have something new, and watches leases and retries.

It follows the commit log in memory, and after a restart looks once at every stream that is newer than the oldest
subscription. With many nodes each of them follows, so that workers may ask any, and the leader wakes them.
A wake is a command, so what a worker was told, and until when it may work on it, is durable before it is told.
"""

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from mainstem import limits
from mainstem.errors import MainstemError, SubscriptionNotFound
from mainstem.log.commands import Key, State
from mainstem.log.commit import CommitLog
from mainstem.log.records import Record
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import STREAMS
from mainstem.streams.subscriptions.core.model import LINKS, SUBSCRIPTIONS, Subscription, split_link, subscription_key
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
from mainstem.streams.subscriptions.link_queries import drop_links, find_candidates, find_up_to_date, read_snapshot
from mainstem.streams.subscriptions.signing_keys import SigningKeys
from mainstem.streams.subscriptions.webhook_client import WebhookClient
from mainstem.streams.subscriptions.webhook_sender import WebhookSender

logger = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, log: CommitLog, client: WebhookClient) -> None:
        self.log = log
        self.keys = SigningKeys(log)
        self._webhooks = WebhookSender(log, client, self.keys, self._acknowledge_all)
        self._changed = asyncio.Event()
        self._pending = PendingStreams(self._changed.set)
        self._tasks: set[asyncio.Task[None]] = set()
        self._was_leader = False
        self._changed_while_loading: set[Key] | None = None
        """What changed while all was being loaded, and is newer than what the load finds."""

    # Life

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

    async def stop(self) -> None:
        self.log.observers.remove(self._observe)
        self.log.resets.remove(self._reset)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self) -> None:
        """Everything that is there at the start; streams with news are found by looking at each once."""
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
        """Changes of other nodes were missed: forget what is known, and look at everything again."""
        self._pending.forget_all()
        self._spawn(self._reload())

    async def _reload(self) -> None:
        while True:
            try:
                await self.keys.reload()
                await self._load()
                return
            except MainstemError as error:
                logger.warning("subscriptions could not be loaded and are tried again: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)

    # Following the log, and waking

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        pending = self._pending
        for key, state in changes.items():
            if key.space is STREAMS:
                if pending.subscriptions:  # where there are none, appends do not even pay for a call
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
                    self._changed.set()  # what changed meanwhile comes with the next round
                if self.log.store.is_leader:
                    await self._wake_ready()
            except MainstemError as error:
                logger.warning("waking subscriptions failed and is tried again: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()
            except Exception:
                logger.exception("waking subscriptions failed and is tried again")
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()

    async def _match_changes(self) -> None:
        """Look up the subscriptions to all streams that have changed by now, in steps that the loop can afford."""
        pending = self._pending
        until = pending.matched_count + pending.unmatched_count
        while not pending.match_changes(limits.GLOB_TRIES_AT_ONCE) and pending.matched_count < until:  # noqa: ASYNC110 - it works
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
        woken = await self.log.submit(Wake(name, state.nonce, _new_wake_id(), candidates, state.config.wake_stream))
        if woken is None:
            return
        self._pending.clear_pending(name, woken.up_to_date, since)
        if woken.streams and state.config.type == "webhook":
            self._spawn(self._webhooks.deliver(name, woken.state, woken.streams))

    async def _candidates(self, name: str) -> tuple[Candidate, ...]:
        state = self._pending.subscriptions.get(name)
        if state is None:
            raise SubscriptionNotFound(f"there is no subscription {name!r}")
        return await find_candidates(self.log.store, state, self._pending.paths(name)[: limits.WAKE_STREAMS_MAX])

    # What workers do

    async def find(self, name: str) -> Subscription:
        state: Subscription | None = await self.log.store.get(subscription_key(name))
        if state is None:
            raise SubscriptionNotFound(f"there is no subscription {name!r}")
        return state

    def knows(self, name: str) -> bool:
        return name in self._pending.subscriptions

    def count_owned(self, owner: str | None) -> int:
        return self._pending.owned[owner]

    async def claim(self, name: str, worker: str) -> tuple[WakeResult, str]:
        state = await self.find(name)
        await self._match_changes()  # what was appended before the claim counts for it
        since = self._pending.change_count
        candidates = await self._candidates(name)
        woken = await self.log.submit(Claim(name, state.nonce, worker, _new_wake_id(), candidates))
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
            # If something is left, the next wake finds out what; if not, what was looked at just now has nothing new.
            looked_at = {path for path, _ in acks} | {candidate.path for candidate in candidates}
            self._pending.clear_pending(name, () if more else looked_at, since)
        return more or (done and self._pending.has_paths(name))

    async def _acknowledge_all(self, name: str, state: Subscription) -> None:
        """A webhook's answer can say that all is done that this wake told of."""
        assert state.wake_id is not None
        acks = tuple((path, Offset.parse(offset)) for path, offset in state.snapshot)
        fencing = FencingToken(state.nonce, state.generation, state.generation, state.wake_id)
        await self.acknowledge(name, fencing, acks, True, of_snapshot=True)

    # Leases, retries and reviews, by the clock

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
                # Those with an open call may be due too, and must not stand in the way of the others.
                most = limits.WAKES_AT_ONCE + len(self._webhooks.in_flight)
                due = await self.log.store.due(SUBSCRIPTIONS, self.log.clock_us(), most)
                await asyncio.gather(*(self._handle_due(name) for name in due))
            except MainstemError as error:
                logger.warning("leases could not be checked: %s", error.detail)
            except Exception:
                logger.exception("leases could not be checked")

    async def _take_over(self) -> None:
        """This node wakes from now on. What the one before it has left undone is found by looking at everything."""
        try:
            await self._load()
        except BaseException:
            self._was_leader = False
            raise

    async def _handle_due(self, name: str) -> None:
        state = self._pending.subscriptions.get(name)
        if state is None or state.wake_id is None or state.wake_id in self._webhooks.in_flight:
            return
        if state.next_attempt_us is not None:
            again = await self.log.submit(RetryDelivery(name, state.wake_id))
            if again is not None:
                self._spawn(self._webhooks.deliver(name, again, await read_snapshot(self.log.store, again)))
        elif await self.log.submit(ExpireLease(name, state.wake_id)):
            self._pending.make_ready([name])

    async def _review_periodically(self) -> None:
        while True:
            await asyncio.sleep(limits.PENDING_REVIEW_S)
            try:
                if not self.log.store.is_leader:
                    await self._review()
            except MainstemError as error:
                logger.warning("pending streams could not be reviewed: %s", error.detail)

    async def _review(self) -> None:
        """Forget streams that were handled on another node, or they would gather here for ever."""
        for name, state in list(self._pending.subscriptions.items()):
            since = self._pending.change_count
            paths = self._pending.paths(name)
            for at in range(0, len(paths), limits.WAKE_STREAMS_MAX):
                up_to_date = await find_up_to_date(self.log.store, state, paths[at : at + limits.WAKE_STREAMS_MAX])
                self._pending.clear_pending(name, up_to_date, since)


def _new_wake_id() -> str:
    return "w_" + secrets.token_urlsafe(16)
