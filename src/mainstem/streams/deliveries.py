"""Deliveries: finds out which subscriptions have something new, wakes them, and calls their webhooks.

It follows the commit log in memory, and after a restart looks once at every stream that is newer than the oldest
subscription. With many nodes each of them follows, so that workers may ask any, and the one that tends the log wakes.
A wake is a command, so what a worker was told, and until when it may work on it, is durable before it is told. What is
kept in memory only says where to look; whether something is new is decided by the command.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError, SubscriptionNotFound
from mainstem.globs import GlobIndex, matches
from mainstem.log.commands import Key, State
from mainstem.log.commit import CommitLog
from mainstem.log.records import Record, TopicId
from mainstem.streams.jitter import spread
from mainstem.streams.offsets import Offset
from mainstem.streams.signing import (
    KEYRING_KEY,
    KEYRINGS,
    EnsureKeys,
    Keyring,
    TokenClaims,
    make_token,
    sign_webhook,
)
from mainstem.streams.states import STREAMS, StreamState, stream_key
from mainstem.streams.subscriptions import (
    LINKS,
    SUBSCRIPTIONS,
    DropLinks,
    Link,
    Subscription,
    has_pending,
    link_key,
    link_prefix,
    split_link,
    subscription_key,
)
from mainstem.streams.wakes import (
    Acknowledge,
    Attempt,
    Candidate,
    Claim,
    Delivered,
    ExpireLease,
    Grip,
    LinkedStream,
    Postpone,
    Wake,
    Woken,
)
from mainstem.streams.webhooks import Answer, WebhookCaller, WebhookFailed

logger = logging.getLogger(__name__)


class WebhookBody(msgspec.Struct, frozen=True):
    subscription_id: str
    wake_id: str
    generation: int
    streams: tuple[LinkedStream, ...]
    callback_url: str
    callback_token: str


class WebhookAnswer(msgspec.Struct, frozen=True):
    done: bool = False


class Deliveries:
    def __init__(self, log: CommitLog, caller: WebhookCaller) -> None:
        self.log = log
        self.caller = caller
        self.ring: Keyring
        self._subscriptions: dict[str, Subscription] = {}
        self._globs = GlobIndex()
        self._by_pattern: dict[str, set[str]] = {}
        self._explicit: dict[str, set[str]] = {}
        self._pending: dict[str, dict[str, None]] = {}
        """Streams that may have something new, by subscription; checked for good when it is woken."""
        self._spread: set[str] = set()
        """Dirty paths that stand in the pending set of every matching subscription already."""
        self._changes: dict[str, int] = {}
        """When a path changed last, counted in observed changes: a look that began before that settles nothing."""
        self._count = 0
        self._nonces: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._ready: set[str] = set()
        self._changed = asyncio.Event()
        self._calls = asyncio.Semaphore(limits.WEBHOOKS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._tended = False
        self._heard: set[Key] | None = None
        """What changed while all was being loaded, and is newer than what the load finds."""

    # Life

    async def start(self) -> None:
        self.ring = await self._ensure_keys()
        self.log.store.observe(STREAMS, SUBSCRIPTIONS, LINKS, KEYRINGS)
        self.log.observers.append(self._observe)
        self.log.resets.append(self._reset)
        self._tended = self.log.store.tending
        await self._load()
        jobs = [self._follow(), self._watch_times(), self._watch_keys()]
        if self.log.store.shared:
            jobs.append(self._review_at_times())
        for job in jobs:
            self._spawn(job)

    async def stop(self) -> None:
        self.log.observers.remove(self._observe)
        self.log.resets.remove(self._reset)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, job: Any) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ensure_keys(self, *, rotate: bool = False) -> Keyring:
        return await self.log.submit(
            EnsureKeys(secrets.token_bytes(32), secrets.token_bytes(32), limits.SIGNING_KEY_US_MAX, rotate)
        )

    async def rotate_keys(self) -> Keyring:
        self.ring = await self._ensure_keys(rotate=True)
        return self.ring

    async def _load(self) -> None:
        """Everything that is there at the start; streams with news are found by looking at each once."""
        heard: set[Key] = set()
        self._heard = heard
        try:
            await self._load_all(heard)
        finally:
            self._heard = None

    async def _load_all(self, heard: set[Key]) -> None:
        store = self.log.store
        after = ""
        while page := await store.scan(SUBSCRIPTIONS, "", after, limits.SCAN_PAGE):
            for name, state in page:
                if subscription_key(name) not in heard:
                    self._index(name, state)
            after = page[-1][0]
        after = ""
        orphans: set[str] = set()
        while page := await store.scan(LINKS, "", after, limits.SCAN_PAGE):
            for name, link in page:
                nonce, _ = split_link(name)
                if nonce in self._nonces:
                    if Key(LINKS, name) not in heard:
                        self._index_link(name, link)
                elif store.tending:
                    orphans.add(nonce)
            after = page[-1][0]
        for nonce in orphans:
            self._spawn(self._drop_links(nonce))
        if not self._subscriptions:
            return
        oldest = min(state.created_id for state in self._subscriptions.values())
        after = ""
        while page := await store.scan(STREAMS, "", after, limits.SCAN_PAGE):
            self._dirty.update(name for name, stream in page if stream.last_id > oldest or name in self._explicit)
            after = page[-1][0]
        self._ready.update(self._subscriptions)
        self._changed.set()

    def _reset(self) -> None:
        """Changes of other nodes were missed: forget what is known, and look at everything again."""
        for name, state in list(self._subscriptions.items()):
            self._unindex(name, state)
        self._spawn(self._load_again())

    async def _load_again(self) -> None:
        while True:
            try:
                ring: Keyring | None = await self.log.store.get(KEYRING_KEY)
                self.ring = ring or self.ring
                await self._load()
                return
            except MainstemError as error:
                logger.warning("subscriptions could not be loaded and are tried again: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)

    # What the log tells

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        for key, state in changes.items():
            if key.space is STREAMS:
                self._note_change(key.name)
            elif key.space is SUBSCRIPTIONS:
                self._index(key.name, state)  # type: ignore[arg-type]
            elif key.space is LINKS:
                self._index_link(key.name, state)  # type: ignore[arg-type]
            elif key.space is KEYRINGS and state is not None:
                self.ring = state  # type: ignore[assignment]
        if self._heard is not None:
            self._heard.update(changes)

    def _note_change(self, path: str) -> None:
        """A stream changed. This is all that an append costs while its subscriptions know already."""
        if not self._subscriptions:
            return
        self._count += 1
        self._changes[path] = self._count
        if path not in self._spread:
            self._dirty.add(path)
            self._changed.set()

    def _index(self, name: str, state: Subscription | None) -> None:
        old = self._subscriptions.get(name)
        if old is not None and (state is None or state.nonce != old.nonce):
            self._unindex(name, old)
            if self.log.store.tending:
                self._spawn(self._drop_links(old.nonce))
            old = None
        if state is None:
            return
        if old is None:
            self._nonces[state.nonce] = name
            self._pending[name] = {}
            if state.config.pattern is not None:
                self._by_pattern.setdefault(state.config.pattern, set()).add(name)
                self._globs.add(state.config.pattern)
            self._forget_spread()
        self._subscriptions[name] = state
        if state.wake_id is None and self._pending[name]:
            self._ready.add(name)
            self._changed.set()

    def _unindex(self, name: str, old: Subscription) -> None:
        del self._subscriptions[name]
        del self._nonces[old.nonce]
        self._pending.pop(name, None)
        self._ready.discard(name)
        self._unlink_pattern(name, old.config.pattern)
        for linked in self._explicit.values():
            linked.discard(name)

    def _forget_spread(self) -> None:
        self._dirty |= self._spread
        self._spread.clear()

    def _unlink_pattern(self, name: str, pattern: str | None) -> None:
        if pattern is not None:
            self._globs.remove(pattern)
            self._by_pattern[pattern].discard(name)
            if not self._by_pattern[pattern]:
                del self._by_pattern[pattern]

    def _index_link(self, name: str, link: Link | None) -> None:
        nonce, path = split_link(name)
        subscription_id = self._nonces.get(nonce)
        if subscription_id is None:
            return
        if link is not None and link.explicit:
            self._explicit.setdefault(path, set()).add(subscription_id)
            self._spread.discard(path)
            self._dirty.add(path)
            self._changed.set()
        elif path in self._explicit:
            self._explicit[path].discard(subscription_id)
            if not self._explicit[path]:
                del self._explicit[path]

    def linked_to(self, path: str) -> set[str]:
        """Subscriptions to a stream. A wake stream wakes nobody who writes to it: that would never end."""
        found = set(self._explicit.get(path, ()))
        for pattern in self._globs.find(path):
            found |= self._by_pattern.get(pattern, set())
        return {name for name in found if self._subscriptions[name].config.wake_stream != path}

    # Finding out what is new, and waking

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self._spread_dirty()
                if self.log.store.tending:
                    await self._wake_ready()
            except MainstemError as error:
                logger.warning("waking subscriptions failed and is tried again: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()
            except Exception:
                logger.exception("waking subscriptions failed and is tried again")
                await asyncio.sleep(limits.REAP_EVERY_S)
                self._changed.set()

    def _spread_dirty(self) -> None:
        while self._dirty:
            path = self._dirty.pop()
            linked = self.linked_to(path)
            for name in linked:
                self._pending[name][path] = None
                if self._subscriptions[name].wake_id is None:
                    self._ready.add(name)
            if not linked:
                self._changes.pop(path, None)
            if len(self._spread) < limits.SPREAD_PATHS_MAX:
                self._spread.add(path)
        if len(self._changes) > 2 * limits.SPREAD_PATHS_MAX:
            waiting = {path for pending in self._pending.values() for path in pending}
            self._changes = {path: at for path, at in self._changes.items() if path in waiting}

    async def _wake_ready(self) -> None:
        while self._ready:
            names = [self._ready.pop() for _ in range(min(len(self._ready), limits.WAKES_AT_ONCE))]
            try:
                await asyncio.gather(*(self._wake(name) for name in names))
            except BaseException:
                self._ready.update(name for name in names if name in self._subscriptions)
                raise

    async def _wake(self, name: str) -> None:
        state = self._subscriptions.get(name)
        if state is None or state.wake_id is not None or not self._pending[name]:
            return
        since = self._count
        candidates = await self.candidates(name)
        woken = await self.log.submit(Wake(name, state.nonce, _new_wake_id(), candidates, state.config.wake_stream))
        if woken is None:
            return
        self._settle(name, woken.quiet, since)
        if woken.streams and state.config.type == "webhook":
            self._spawn(self._deliver(name, woken.state, woken.streams))

    async def candidates(self, name: str) -> tuple[Candidate, ...]:
        """What a wake of this subscription would look at, with the beginnings of links that are only implied."""
        state = self._subscriptions.get(name)
        if state is None:
            raise SubscriptionNotFound(f"there is no subscription {name!r}")
        paths = list(self._pending[name])[: limits.WAKE_STREAMS_MAX]
        keys = [link_key(state.nonce, path) for path in paths] + [stream_key(path) for path in paths]
        states = await self.log.store.get_many(keys)
        found: list[Candidate] = []
        for path in paths:
            link, stream = states[link_key(state.nonce, path)], states[stream_key(path)]
            if link is None and has_pending(state, path, None, stream):
                start = await self.log.store.first_after(stream.topic, state.created_id)
                found.append(Candidate(path, stream.topic, start))
            else:
                found.append(Candidate(path))
        return tuple(found)

    async def implied_starts(self, state: Subscription, paths: tuple[str, ...]) -> tuple[tuple[str, TopicId, int], ...]:
        """Where the links begin that the pattern implies and that have something pending."""
        found: list[tuple[str, TopicId, int]] = []
        for path in paths:
            stream: StreamState | None = await self.log.store.get(stream_key(path))
            if stream is not None and has_pending(state, path, None, stream):
                start = await self.log.store.first_after(stream.topic, state.created_id)
                if start is not None:
                    found.append((path, stream.topic, start))
        return tuple(found)

    def _settle(self, name: str, quiet: Iterable[str], since: int) -> None:
        """These streams had nothing new when they were looked at: forget them until they change."""
        pending = self._pending.get(name)
        if pending is None:
            return
        for path in quiet:
            if self._changes.get(path, 0) <= since:
                pending.pop(path, None)
                self._spread.discard(path)
        if pending:
            self._ready.add(name)
            self._changed.set()

    # What workers do

    async def claim(self, name: str, worker: str) -> tuple[Woken, str]:
        state = await self.find(name)
        self._spread_dirty()  # what was appended before the claim counts for it
        since = self._count
        candidates = await self.candidates(name)
        woken = await self.log.submit(Claim(name, state.nonce, worker, _new_wake_id(), candidates))
        self._settle(name, woken.quiet, since)
        return woken, self.token(name, woken.state)

    async def acknowledge(
        self, name: str, grip: Grip, acks: tuple[tuple[str, Offset], ...], done: bool, *, of_snapshot: bool = False
    ) -> bool:
        self._spread_dirty()
        since = self._count
        candidates = await self.candidates(name) if done else ()
        more = await self.log.submit(Acknowledge(name, grip, acks, done, candidates, of_snapshot))
        if done and name in self._subscriptions:
            # If something is left, the next wake finds out what; if not, what was looked at just now is settled.
            looked_at = {path for path, _ in acks} | {candidate.path for candidate in candidates}
            self._settle(name, () if more else looked_at, since)
        return more or (done and bool(self._pending.get(name)))

    def token(self, name: str, state: Subscription) -> str:
        return make_token(self.ring, TokenClaims(name, state.nonce, state.generation))

    # Webhooks

    async def _deliver(self, name: str, state: Subscription, streams: tuple[LinkedStream, ...]) -> None:
        assert state.wake_id is not None
        assert state.config.webhook_url is not None
        body = msgspec.json.encode(
            WebhookBody(
                name,
                state.wake_id,
                state.generation,
                streams,
                f"{state.base_url}/__ds/subscriptions/{quote(name, safe='')}/callback",
                self.token(name, state),
            )
        )
        try:
            async with self._calls:
                signature = sign_webhook(self.ring, body, self.log.clock_us())
                answer = await self.caller.call(state.config.webhook_url, body, signature)
            if not 200 <= answer.status < 300:
                raise WebhookFailed(f"the receiver answered {answer.status}")
        except WebhookFailed as failure:
            await self._postpone(name, state, failure)
            return
        await self._accept(name, state, answer)

    async def _accept(self, name: str, state: Subscription, answer: Answer) -> None:
        assert state.wake_id is not None
        try:
            done = msgspec.json.decode(answer.body, type=WebhookAnswer).done
        except msgspec.MsgspecError:
            done = False  # any 2xx is a receipt; only a plain {"done": true} also acknowledges
        try:
            if done:
                acks = tuple((path, Offset.parse(offset)) for path, offset in state.snapshot)
                grip = Grip(state.nonce, state.generation, state.generation, state.wake_id)
                await self.acknowledge(name, grip, acks, True, of_snapshot=True)
            else:
                await self.log.submit(Delivered(name, state.wake_id))
        except MainstemError as error:
            logger.info("the answer of webhook %s came too late: %s", name, error.detail)

    async def _postpone(self, name: str, state: Subscription, failure: WebhookFailed) -> None:
        assert state.wake_id is not None
        delay_s = min(limits.WEBHOOK_BACKOFF_S * 2**state.attempts, limits.WEBHOOK_BACKOFF_S_MAX)
        delay_s = spread(delay_s, 0.2)
        logger.info("webhook %s failed, again in %.1f s: %s", name, delay_s, failure)
        at_us = self.log.clock_us() + int(delay_s * 1_000_000)
        try:
            await self.log.submit(Postpone(name, state.wake_id, at_us))
        except MainstemError as error:  # the lease runs out instead, and the wake comes again
            logger.warning("the retry of webhook %s could not be noted: %s", name, error.detail)

    # Leases and retries, by the clock

    async def _watch_keys(self) -> None:
        """Replace the signing key when it is old, and stop publishing those that were replaced."""
        while True:
            await asyncio.sleep(limits.SIGNING_KEY_CHECK_S)
            try:
                self.ring = await self._ensure_keys()
            except MainstemError as error:
                logger.warning("the signing keys could not be checked: %s", error.detail)

    async def _watch_times(self) -> None:
        while True:
            await asyncio.sleep(limits.LEASE_CHECK_S)
            tended, self._tended = self._tended, self.log.store.tending
            if not self._tended:
                continue
            try:
                if not tended:
                    await self._take_over()
                if not self._subscriptions:
                    continue
                due = await self.log.store.due(SUBSCRIPTIONS, self.log.clock_us(), limits.WAKES_AT_ONCE)
                await asyncio.gather(*(self._time_has_come(name) for name in due))
            except MainstemError as error:
                logger.warning("leases could not be checked: %s", error.detail)
            except Exception:
                logger.exception("leases could not be checked")

    async def _take_over(self) -> None:
        """This node wakes from now on. What the one before it has left undone is found by looking at everything."""
        try:
            await self._load()
        except BaseException:
            self._tended = False
            raise

    async def _review_at_times(self) -> None:
        while True:
            await asyncio.sleep(limits.PENDING_REVIEW_S)
            try:
                if not self.log.store.tending:
                    await self._review()
            except MainstemError as error:
                logger.warning("pending streams could not be reviewed: %s", error.detail)

    async def _review(self) -> None:
        """Forget streams that were settled at another node, or they would gather here for ever."""
        for name, state in list(self._subscriptions.items()):
            since = self._count
            paths = list(self._pending.get(name, ()))
            for at in range(0, len(paths), limits.WAKE_STREAMS_MAX):
                some = paths[at : at + limits.WAKE_STREAMS_MAX]
                keys = [link_key(state.nonce, path) for path in some] + [stream_key(path) for path in some]
                states = await self.log.store.get_many(keys)
                quiet = [
                    path
                    for path in some
                    if not has_pending(state, path, states[link_key(state.nonce, path)], states[stream_key(path)])
                ]
                self._settle(name, quiet, since)

    async def _time_has_come(self, name: str) -> None:
        state = self._subscriptions.get(name)
        if state is None or state.wake_id is None:
            return
        if state.next_attempt_us is not None:
            again = await self.log.submit(Attempt(name, state.wake_id))
            if again is not None:
                self._spawn(self._deliver(name, again, await self._snapshot(name, again)))
        elif await self.log.submit(ExpireLease(name, state.wake_id)):
            self._ready.add(name)
            self._changed.set()

    async def _snapshot(self, name: str, state: Subscription) -> tuple[LinkedStream, ...]:
        """The streams of a wake that is told again, as they were told first."""
        keys = [link_key(state.nonce, path) for path, _ in state.snapshot]
        links = await self.log.store.get_many(keys)
        streams: list[LinkedStream] = []
        for path, tail in state.snapshot:
            link: Link | None = links[link_key(state.nonce, path)]
            if link is not None:
                kind = "explicit" if link.explicit else "glob"
                streams.append(LinkedStream(path, kind, str(link.acked), tail, str(link.acked) < tail))
        return tuple(streams)

    # Looking at them

    async def find(self, name: str) -> Subscription:
        state: Subscription | None = await self.log.store.get(subscription_key(name))
        if state is None:
            raise SubscriptionNotFound(f"there is no subscription {name!r}")
        return state

    async def links(self, state: Subscription) -> list[tuple[str, str, str]]:
        """Every linked stream (path, link type, acknowledged offset), up to a bound."""
        store = self.log.store
        found: dict[str, tuple[str, str, str]] = {}
        prefix = link_prefix(state.nonce)
        for key, link in await store.scan(LINKS, prefix, "", limits.LISTED_LINKS_MAX):
            path = key.removeprefix(prefix)
            found[path] = (path, "explicit" if link.explicit else "glob", str(link.acked))
        if state.config.pattern is not None:
            await self._add_implied(state, found)
        return sorted(found.values())

    async def _add_implied(self, state: Subscription, found: dict[str, tuple[str, str, str]]) -> None:
        pattern = state.config.pattern
        assert pattern is not None
        after = ""
        literal = pattern.partition("*")[0]
        while len(found) < limits.LISTED_LINKS_MAX:
            page = await self.log.store.scan(STREAMS, literal, after, limits.SCAN_PAGE)
            for path, stream in page:
                if path in found or stream.deleted or stream.soft_deleted:
                    continue
                if matches(pattern, path) and path != state.config.wake_stream:
                    found[path] = (path, "glob", await self._implied_offset(state, stream))
            if len(page) < limits.SCAN_PAGE:
                return
            after = page[-1][0]

    async def _implied_offset(self, state: Subscription, stream: StreamState) -> str:
        if stream.last_id <= state.created_id:
            return str(stream.next_offset)
        start = await self.log.store.first_after(stream.topic, state.created_id)
        return str(msgspec.structs.replace(stream, tail=start or 0).next_offset)

    async def _drop_links(self, nonce: str) -> None:
        prefix = link_prefix(nonce)
        try:
            while page := await self.log.store.scan(LINKS, prefix, "", limits.ERASE_RECORDS_MAX):
                await self.log.submit(DropLinks(nonce, tuple(key.removeprefix(prefix) for key, _ in page)))
        except MainstemError as error:
            logger.warning("links of a deleted subscription are left until the next start: %s", error.detail)


def _new_wake_id() -> str:
    return "w_" + secrets.token_urlsafe(16)
