"""Webhook deliveries: sends a durable wake to its receiver and records the outcome."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote, urlsplit

import msgspec

from mainstem import limits
from mainstem.errors import Fenced, MainstemError, SubscriptionNotFound
from mainstem.log.commit import CommitLog
from mainstem.streams.jitter import add_jitter
from mainstem.streams.subscriptions.core.model import Subscription
from mainstem.streams.subscriptions.core.signing import sign_webhook
from mainstem.streams.subscriptions.core.wakes import (
    ConfirmDelivery,
    FencingToken,
    LinkedStream,
    PostponeDelivery,
    Release,
)
from mainstem.streams.subscriptions.keyed_semaphore import KeyedSemaphore
from mainstem.streams.subscriptions.signing_keys import SigningKeys
from mainstem.streams.subscriptions.webhook_client import Outcome, WebhookClient, WebhookFailed, WebhookResponse
from mainstem.traces import Delivery, name_error

logger = logging.getLogger(__name__)

AcknowledgeAll = Callable[[str, Subscription], Awaitable[None]]
"""Acknowledges everything in a wake, given the subscription's id and its state in that wake."""
IsWanted = Callable[[str, Subscription], bool]
"""Returns whether a wake is still the current one of its subscription, and the subscription is not paused."""


class WebhookBody(msgspec.Struct, frozen=True):
    subscription_id: str
    wake_id: str
    generation: int
    streams: tuple[LinkedStream, ...]
    callback_url: str
    callback_token: str


class WebhookResult(msgspec.Struct, frozen=True):
    done: bool = False


def is_success(answer: WebhookResponse) -> bool:
    return 200 <= answer.status < 300


class WebhookSender:
    def __init__(
        self,
        log: CommitLog,
        client: WebhookClient,
        keys: SigningKeys,
        acknowledge_all: AcknowledgeAll,
        is_wanted: IsWanted,
    ) -> None:
        self._log = log
        self._client = client
        self._keys = keys
        self._acknowledge_all = acknowledge_all
        self._is_wanted = is_wanted
        self.outcomes: Counter[Outcome] = Counter()
        """The number of calls so far, by how they ended."""
        self.in_flight: set[str] = set()
        """The wakes whose calls are running or waiting for their turn. They must not be sent again in the meantime."""
        self._calls = asyncio.Semaphore(limits.WEBHOOKS_AT_ONCE)
        self._owners = KeyedSemaphore(limits.WEBHOOKS_PER_OWNER_AT_ONCE)
        self._hosts = KeyedSemaphore(limits.WEBHOOKS_PER_HOST_AT_ONCE)

    async def deliver(self, name: str, state: Subscription, streams: tuple[LinkedStream, ...]) -> None:
        assert state.wake_id is not None
        self.in_flight.add(state.wake_id)
        try:
            await self._deliver(name, state, streams)
        finally:
            self.in_flight.discard(state.wake_id)

    @asynccontextmanager
    async def _acquire_slot(self, url: str, owner: str | None) -> AsyncIterator[None]:
        """Wait for a free slot of the owner, then of the host, then of the server, so that an owner with slow receivers
        does not occupy slots that others need."""
        async with AsyncExitStack() as stack:
            if owner is not None:
                await stack.enter_async_context(self._owners.acquire(owner))
            await stack.enter_async_context(self._hosts.acquire(urlsplit(url).hostname or ""))
            await stack.enter_async_context(self._calls)
            yield

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
                self._keys.token(name, state),
            )
        )
        try:
            async with self._acquire_slot(state.config.webhook_url, state.owner):
                if not self._is_wanted(name, state):  # that may have changed while the call waited
                    await self._withdraw(name, state)
                    return
                answer = await self._call(name, state, streams, body)
            if not is_success(answer):
                raise WebhookFailed(f"the receiver responded with status {answer.status}", Outcome.STATUS)
        except WebhookFailed as failure:
            self.outcomes[failure.outcome] += 1
            await self._postpone(name, state, failure)
            return
        await self._accept(name, state, answer)

    async def _call(
        self, name: str, state: Subscription, streams: tuple[LinkedStream, ...], body: bytes
    ) -> WebhookResponse:
        assert state.wake_id is not None
        assert state.config.webhook_url is not None
        url = state.config.webhook_url
        signature = sign_webhook(self._keys.ring, body, self._log.clock_us())
        began_s = time.perf_counter()
        if self._log.tracer is None:
            answer = await self._client.call(url, body, signature)
        else:
            ranges = [(stream.path, stream.acked_offset, stream.tail_offset) for stream in streams]
            trace = self._log.tracer.begin_delivery(Delivery(name, state.wake_id, url, state.attempts, ranges))
            try:
                answer = await self._client.call(url, body, signature, trace.headers)
            except BaseException as error:
                trace.end(0, str(error.outcome) if isinstance(error, WebhookFailed) else name_error(error))
                raise
            trace.end(answer.status, "" if is_success(answer) else str(answer.status))
        self._log.metrics.webhook_seconds.of().observe(time.perf_counter() - began_s)
        return answer

    async def _accept(self, name: str, state: Subscription, answer: WebhookResponse) -> None:
        assert state.wake_id is not None
        try:
            done = msgspec.json.decode(answer.body, type=WebhookResult).done
        except msgspec.MsgspecError:
            done = False  # any 2xx confirms the delivery; only {"done": true} also acknowledges the data
        self.outcomes[Outcome.DONE if done else Outcome.ACCEPTED] += 1
        try:
            if done:
                await self._acknowledge_all(name, state)
            else:
                await self._log.submit(ConfirmDelivery(name, state.wake_id))
        except MainstemError as error:
            logger.info("the response of webhook %s came too late: %s", name, error.detail)

    async def _withdraw(self, name: str, state: Subscription) -> None:
        """End a wake that was not sent, so that the next one begins as soon as there may be one."""
        assert state.wake_id is not None
        fencing = FencingToken(state.nonce, state.generation, state.generation, state.wake_id)
        try:
            await self._log.submit(Release(name, fencing))
        except (Fenced, SubscriptionNotFound):
            pass  # it has ended already
        except MainstemError as error:  # the lease will expire instead
            logger.warning("the wake of %s could not be withdrawn: %s", name, error.detail)

    async def _postpone(self, name: str, state: Subscription, failure: WebhookFailed) -> None:
        assert state.wake_id is not None
        delay_s = min(limits.WEBHOOK_BACKOFF_S * 2**state.attempts, limits.WEBHOOK_BACKOFF_S_MAX)
        delay_s = add_jitter(self._log.random, delay_s, 0.2)
        logger.info("webhook %s failed and will be retried in %.1f s: %s", name, delay_s, failure)
        at_us = self._log.clock_us() + int(delay_s * 1_000_000)
        try:
            await self._log.submit(PostponeDelivery(name, state.wake_id, at_us, failure.reason))
        except MainstemError as error:  # the lease will expire instead, and another wake follows
            logger.warning("the retry of webhook %s could not be scheduled: %s", name, error.detail)
