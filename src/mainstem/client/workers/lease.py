"""Holds the lease of one wake: heartbeats, acknowledgements, and the end of the wake."""

import asyncio
import logging
from collections.abc import Callable

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import ClientError, may_repeat
from mainstem.client.core.protocol import Request, decode_json
from mainstem.client.core.retries import Retries
from mainstem.client.workers.core.progress import Progress
from mainstem.client.workers.core.subscription_requests import INVALID_OFFSET, SubscriptionRequests, refusal_code
from mainstem.client.workers.core.wakes import Acknowledged, Claim

logger = logging.getLogger("mainstem.client")

ONCE = Retries(attempts_max=1)


class LeaseLost(Exception):
    """This worker no longer holds the wake: another one may have it. The message says why."""


def describe_error(error: Exception) -> str:
    """Return why a request failed: because of the server, or because the application could not give a token for it."""
    return error.detail if isinstance(error, ClientError) else f"the client could not send a request: {error!r}"


class Lease:
    """One claimed wake. `hold` is its only sender, so its requests never overtake each other."""

    def __init__(
        self,
        streams: AsyncStreams,
        requests: SubscriptionRequests,
        claim: Claim,
        asked_s: float,
        clock_s: Callable[[], float],
    ) -> None:
        self._streams = streams
        self._requests = requests
        self._clock_s = clock_s
        self._changed = asyncio.Event()
        self._progress = Progress()
        self._heartbeat_s = claim.lease_s / limits.WORKER_HEARTBEATS_PER_LEASE
        """The time between two heartbeats, and the longest that one request may take."""
        self._deadline_s = asked_s + claim.lease_s  # from before the request, so never later than the server's
        self.claim = claim
        self.overslept = False
        """Whether the latest request began only after the lease had ended: something has blocked the event loop."""

    def note(self, path: str, offset: str) -> None:
        """Acknowledge an offset soon."""
        self._progress.note(path, offset)
        self._changed.set()

    def finish(self) -> None:
        """Let `hold` acknowledge what is left and end the wake."""
        self._progress.finish()
        self._changed.set()

    @property
    def is_overdue(self) -> bool:
        """Whether the lease has ended, unless the server is late in noticing it."""
        return self._clock_s() >= self._deadline_s

    @property
    def moved(self) -> bool:
        """Whether any offset has been noted."""
        return self._progress.moved

    async def hold(self) -> bool:
        """Keep the lease until `finish` is called. Return whether another wake follows; raise `LeaseLost`."""
        while True:
            if not self._progress.is_waiting:
                wait_s = max(self._deadline_s - self.claim.lease_s + self._heartbeat_s - self._clock_s(), 0.0)
                try:
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass
            self._changed.clear()
            self.overslept = self.is_overdue
            done = self._progress.finished
            more = await self._acknowledge(self._progress.pending(), done=done)
            if done:
                return more

    async def _acknowledge(self, offsets: dict[str, str], *, done: bool) -> bool:
        try:
            if done and not offsets and not self._progress.moved:
                await self._send(self._requests.release(self.claim))
                return True
            body = await self._send(self._requests.ack(self.claim, offsets, done=done))
        except ClientError as error:
            if refusal_code(error) != INVALID_OFFSET or not offsets:
                raise LeaseLost(error.detail) from error
            await self._acknowledge_singly(offsets)
            return await self._acknowledge({}, done=done) if done else False
        self._progress.confirm(offsets)
        return decode_json(body, Acknowledged, "the reply to an acknowledgement").next_wake

    async def _acknowledge_singly(self, offsets: dict[str, str]) -> None:
        """Acknowledge each stream on its own, because one of them was deleted or unlinked in the meantime."""
        for path, offset in offsets.items():
            try:
                await self._send(self._requests.ack(self.claim, {path: offset}, done=False))
            except ClientError as error:
                if refusal_code(error) != INVALID_OFFSET:
                    raise LeaseLost(error.detail) from error
                logger.warning("the server refuses the offset of %s, which was deleted or is no longer linked", path)
            self._progress.confirm({path: offset})

    async def _send(self, request: Request) -> bytes:
        """Send a request until the server answers or the lease ends. Raise a refusal, or `LeaseLost`."""
        while True:
            sent_s = self._clock_s()
            left_s = max(self._deadline_s - sent_s, limits.WORKER_LATE_HEARTBEAT_S)
            try:
                async with asyncio.timeout(min(left_s, self._heartbeat_s)):
                    response = await self._streams.run(self._streams.operations.send(request, retries=ONCE))
            except TimeoutError:
                reason = "the server did not answer in time"
            except Exception as error:
                if isinstance(error, ClientError) and not may_repeat(error):
                    raise
                reason = describe_error(error)
            else:
                self._deadline_s = sent_s + self.claim.lease_s
                return response.body
            if self._clock_s() + limits.WORKER_HEARTBEAT_RETRY_S >= self._deadline_s:
                raise LeaseLost(f"the lease ended before the server answered: {reason}")
            await asyncio.sleep(limits.WORKER_HEARTBEAT_RETRY_S)
