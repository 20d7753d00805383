"""The worker: claims wakes of a pull-wake subscription, and calls a function with the new data of their streams."""

import asyncio
import functools
import inspect
import logging
import os
import random
import socket
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import (
    BadArgument,
    ClientError,
    NotFound,
    OffsetGone,
    ResponseError,
    StreamExists,
    may_repeat,
)
from mainstem.client.core.protocol import decode_json, next_offset
from mainstem.client.core.retries import Retries, read_retry_after
from mainstem.client.workers.core.batches import WorkerBatch
from mainstem.client.workers.core.failures import Failures
from mainstem.client.workers.core.subscription_requests import (
    NOT_FOUND,
    NOTHING_TO_CLAIM,
    SubscriptionRefused,
    SubscriptionRequests,
    refusal_code,
    refusal_text,
)
from mainstem.client.workers.core.wakes import Claim, WakeStream
from mainstem.client.workers.lease import ONCE, Lease, LeaseLost, describe_error
from mainstem.client.workers.processor import StreamProcessor
from mainstem.client.workers.signals import stop_on_sigterm
from mainstem.client.workers.tasks import cancel, wait_for_any

logger = logging.getLogger("mainstem.client")

T = TypeVar("T")
Handler = Callable[[WorkerBatch], Awaitable[object]]
OnFailure = Callable[[WorkerBatch, Exception], Awaitable[object] | object]
Resume = Callable[[str], Awaitable[str | None] | str | None]

BACKOFF = Retries(attempts_max=None, delay_s=limits.WORKER_BACKOFF_S, delay_s_max=limits.WORKER_BACKOFF_S_MAX)


class Stopped(Exception):
    """The worker was stopped while it waited for the server."""


class Worker:
    """Calls a function with the new data of the streams that match a pattern. `@worker` makes one.

    To test the function, call the worker with a `WorkerBatch`: that only calls the function, and needs no server.
    """

    def __init__(
        self,
        handler: Handler,
        pattern: str,
        *,
        subscription: str,
        wake_stream: str | None = None,
        concurrency: int = limits.WORKER_CONCURRENCY,
        lease_s: float = limits.WORKER_LEASE_S,
        timeout_s: float | None = limits.WORKER_TIMEOUT_S,
        stop_s: float = limits.WORKER_STOP_S,
        backoff: Retries = BACKOFF,
        attempts_max: int = limits.WORKER_ATTEMPTS,
        on_failure: OnFailure | None = None,
        resume: Resume | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if not inspect.iscoroutinefunction(handler):
            raise BadArgument("a worker needs an async function: begin it with `async def`")
        if not pattern or not subscription:
            raise BadArgument("a worker needs a pattern and the id of a subscription")
        if "/" in subscription:
            raise BadArgument(f"the subscription id {subscription!r} contains a slash; use another character")
        if not 1 <= concurrency <= limits.WORKER_CONCURRENCY_MAX:
            raise BadArgument(f"concurrency is {concurrency}; it must be 1 to {limits.WORKER_CONCURRENCY_MAX}")
        if not limits.LEASE_MS_MIN <= lease_s * 1000 <= limits.LEASE_MS_MAX:
            least, most = limits.LEASE_MS_MIN // 1000, limits.LEASE_MS_MAX // 1000
            raise BadArgument(f"lease_s is {lease_s}; it must be {least} to {most}")
        if attempts_max < 1:
            raise BadArgument(f"attempts_max is {attempts_max}; it counts the first attempt, so 1 is the least")
        functools.update_wrapper(self, handler)
        self.handler = handler
        self.pattern = pattern
        self.subscription = subscription
        self.wake_stream = wake_stream or f"wakes/{subscription}"
        self.concurrency = concurrency
        self.lease_ms = round(lease_s * 1000)
        self.timeout_s = timeout_s
        self.stop_s = stop_s
        self.attempts_max = attempts_max
        self.on_failure = on_failure
        self.resume = resume
        self._clock_s = clock_s
        self._failures = Failures(replace(backoff, attempts_max=None), random.random)
        self._busy: set[str] = set()
        """The streams that are being processed, some of them perhaps by a call that ignores its cancellation."""
        self._stops_at_once = False
        """Whether `stop` was called before the first `run`."""
        self._has_run = False
        self._stopping: asyncio.Event | None = None
        """Of the current run. An event belongs to its event loop, and a worker may run in one after the other."""

    async def __call__(self, batch: WorkerBatch) -> object:
        """Call the function with a batch and return what it returns, for tests. Nothing is claimed or acknowledged."""
        return await self.handler(batch)

    def stop(self) -> None:
        """Stop gracefully: finish the running functions within `stop_s`, acknowledge them, and return from `run`.

        Call it from the event loop of `run`. A stop before the first `run` has begun counts, too; one after a run has
        ended has no effect. SIGTERM does the same, unless the application handles that signal.
        """
        if self._stopping is None:
            self._stops_at_once = not self._has_run
        else:
            self._stopping.set()

    async def run(self, streams: AsyncStreams) -> None:
        """Work until `stop` is called, however often the server restarts.

        Raise `SubscriptionRefused` or another `ClientError` if the server refuses the subscription or the token.
        """
        if self._stopping is not None:
            raise BadArgument(
                "this worker is already running; to process more streams at the same time, raise concurrency"
            )
        self._has_run = True
        if self._stops_at_once:
            self._stops_at_once = False
            return
        self._stopping = asyncio.Event()
        try:
            with stop_on_sigterm(self.stop):
                await self._prepare(streams, self._stopping).work()
        except Stopped:
            pass
        finally:
            self._stopping = None

    async def subscribe(self, streams: AsyncStreams) -> None:
        """Create the subscription if it is missing, as `run` does. Data that is appended from now on is delivered."""
        await self._prepare(streams, asyncio.Event()).subscribe()

    def _prepare(self, streams: AsyncStreams, stopping: asyncio.Event) -> "_Run":
        return _Run(self, streams, self._failures, self._busy, stopping, self._clock_s)


def worker(
    pattern: str,
    *,
    subscription: str,
    wake_stream: str | None = None,
    concurrency: int = limits.WORKER_CONCURRENCY,
    lease_s: float = limits.WORKER_LEASE_S,
    timeout_s: float | None = limits.WORKER_TIMEOUT_S,
    stop_s: float = limits.WORKER_STOP_S,
    backoff: Retries = BACKOFF,
    attempts_max: int = limits.WORKER_ATTEMPTS,
    on_failure: OnFailure | None = None,
    resume: Resume | None = None,
) -> Callable[[Handler], Worker]:
    """Make a worker of an async function, which is called with each batch of new data.

    `subscription` is the id under which the server remembers what was acknowledged. Workers with the same id share it.
    `wake_stream` is the stream for wake messages; by default `wakes/` and the id.
    `concurrency` is how many streams are processed at once. The batches of one stream come one after the other.
    `lease_s` is how long after a crash of this process another worker takes over.
    `timeout_s` is how long one call may take; then it is cancelled and counts as failed. With None there is no limit,
    and a call that hangs holds up all streams of the subscription.
    `backoff` is how long the worker waits after a failed call; its `attempts_max` is ignored.
    `on_failure` is called with a batch and its error after `attempts_max` calls. If it returns, the batch counts as
    processed; if it raises, or without it, the worker tries again for ever.
    `resume` returns the offset up to which a stream is processed, or None, if you keep it with the effects.
    """

    def decorate(handler: Handler) -> Worker:
        return Worker(
            handler,
            pattern,
            subscription=subscription,
            wake_stream=wake_stream,
            concurrency=concurrency,
            lease_s=lease_s,
            timeout_s=timeout_s,
            stop_s=stop_s,
            backoff=backoff,
            attempts_max=attempts_max,
            on_failure=on_failure,
            resume=resume,
        )

    return decorate


class _Run:
    """One run of a worker with one client."""

    def __init__(
        self,
        worker: Worker,
        streams: AsyncStreams,
        failures: Failures,
        busy: set[str],
        stopping: asyncio.Event,
        clock_s: Callable[[], float],
    ) -> None:
        self._worker = worker
        self._streams = streams
        self._operations = streams.operations
        self._requests = SubscriptionRequests(self._operations.requests.prefix, worker.subscription)
        self._unlimited = replace(self._operations.sender.retries, attempts_max=None)
        self._name = f"{socket.gethostname()[:64]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._failures = failures
        self._busy = busy
        self._stopping = stopping
        self._clock_s = clock_s
        self._woken = asyncio.Event()

    # Finding work

    async def work(self) -> None:
        offset = await self._until_stopped(self.subscribe())
        follower = asyncio.create_task(self._follow_wakes(offset))
        try:
            while not self._stopping.is_set():
                self._woken.clear()
                lease = await self._claim_until_stopped()
                if lease is None:
                    await wait_for_any(limits.WORKER_CLAIM_S, self._woken, self._stopping)
                    continue
                now_s = self._clock_s()
                free = [stream for stream in lease.claim.streams if stream.path not in self._busy]
                if due := self._failures.select_due(free, now_s):
                    recorded = self._failures.recorded
                    if not await self._process(lease, due):
                        await wait_for_any(limits.WORKER_CLAIM_S, self._woken, self._stopping)
                    elif not lease.moved and self._failures.recorded == recorded:
                        # Nothing has changed, so the next wake is the same: its streams were just deleted, for example.
                        await wait_for_any(limits.WORKER_LOOK_S, self._stopping)
                else:
                    wait_s = self._failures.wait_s(free, now_s) if free else limits.WORKER_LOOK_S
                    await self._release(lease)
                    # Wake messages do not matter here: the release has just caused one.
                    await wait_for_any(min(wait_s, limits.WORKER_LOOK_S), self._stopping)
        finally:
            await cancel(follower)

    async def subscribe(self) -> str:
        """Create the wake stream and the subscription if they are missing. Return the end of the wake stream."""
        worker = self._worker
        retention = f"max-messages={limits.WORKER_WAKES_KEPT}"
        create = self._operations.requests.create(worker.wake_stream, "application/json", retention=retention)
        try:
            await self._streams.run(self._operations.send(create, retries=self._unlimited))
        except StreamExists:
            pass  # somebody made it with other settings, which is fine
        head = self._operations.requests.head(worker.wake_stream)
        end = next_offset(await self._streams.run(self._operations.send(head, retries=self._unlimited)))
        request = self._requests.put(worker.pattern, worker.wake_stream, worker.lease_ms)
        try:
            await self._streams.run(self._operations.send(request, retries=self._unlimited))
        except ResponseError as error:
            if error.status in (400, 409, 422):
                raise SubscriptionRefused(refusal_text(error)) from error
            raise
        return end

    async def _follow_wakes(self, start: str) -> None:
        """Set `_woken` at every wake message. Recover from everything: without wake messages, work would wait."""
        name = self._worker.wake_stream
        failures, closed = 0, False
        offset: str | None = start
        while True:
            try:
                if offset is None:
                    offset = await self.subscribe()
                async for batch in self._streams.follow(name, offset):
                    failures, offset = 0, batch.offset
                    if not batch.empty:
                        self._woken.set()
                if not closed:
                    logger.warning("the wake stream %s is closed; the worker asks for work from time to time", name)
                closed, offset = True, "now"
                await asyncio.sleep(limits.WORKER_CLAIM_S)  # until then, a closed stream can only be deleted
                continue
            except OffsetGone as error:
                offset = error.earliest_offset or "now"
            except NotFound:
                offset = None
            except Exception as error:  # noqa: BLE001 (a token of the application may fail with any error)
                logger.warning("cannot follow the wake stream %s yet: %s", name, describe_error(error))
            self._woken.set()
            failures += 1
            await asyncio.sleep(BACKOFF.delay(failures, random.random))

    async def _claim_until_stopped(self) -> Lease | None:
        claim = asyncio.create_task(self._claim())
        try:
            return await self._until_stopped(claim)
        except asyncio.CancelledError:
            lease = claim.result() if claim.done() and not claim.cancelled() and claim.exception() is None else None
            if lease is not None:
                await _end(lease, asyncio.create_task(lease.hold()))
            raise

    async def _claim(self) -> Lease | None:
        """Return the lease of the wake that this worker now holds; None if there is no work for it."""
        request = self._requests.claim(self._name)
        failures = 0
        while True:
            asked_s = self._clock_s()  # of this attempt, because the lease does not begin with an earlier one
            try:
                response = await self._streams.run(self._operations.send(request, retries=ONCE))
                claim = decode_json(response.body, Claim, "the reply to a claim")
            except Exception as error:  # noqa: BLE001 (a token of the application may fail with any error)
                if isinstance(error, ClientError) and not may_repeat(error):
                    await self._accept_refusal(error)
                    return None
                name = self._worker.subscription
                logger.warning("cannot claim the subscription %r yet: %s", name, describe_error(error))
                failures += 1
                wait_s = read_retry_after(error.headers) if isinstance(error, ResponseError) else None
                await asyncio.sleep(max(wait_s or 0.0, self._unlimited.delay(failures, random.random)))
            else:
                return Lease(self._streams, self._requests, claim, asked_s, self._clock_s)

    async def _accept_refusal(self, error: ClientError) -> None:
        """Return if a claim was refused because there is no work, and raise any other refusal."""
        code = refusal_code(error)
        if code in NOTHING_TO_CLAIM:
            return
        if code != NOT_FOUND:
            raise error
        logger.warning("somebody deleted the subscription %r; the worker creates it", self._worker.subscription)
        await self.subscribe()

    async def _until_stopped(self, call: Awaitable[T]) -> T:
        """Return the result of a call to the server. Once the worker is stopped, the call gets WORKER_RELEASE_S more,
        because a claim or release that is abandoned delays its streams by a lease time."""
        task = asyncio.ensure_future(call)
        try:
            stopped = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel(stopped)
            if not task.done():
                await asyncio.wait({task}, timeout=limits.WORKER_RELEASE_S)
            if not task.done():
                raise Stopped
            return task.result()
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=limits.WORKER_RELEASE_S)
            raise
        finally:
            await cancel(task)

    # Working

    async def _process(self, lease: Lease, due: list[WakeStream]) -> bool:
        """Process the streams of a wake while the lease lasts. Return whether to claim again at once.

        A wake ends with its slowest call. The protocol offers no other streams until then: the server refuses claims
        while a worker holds the lease, and without the lease another worker could process the same streams.
        """
        waiting = deque(due)
        count = min(self._worker.concurrency, len(waiting))
        processor = StreamProcessor(
            self._worker, self._streams, lease, self._failures, self._busy, self._stopping, self._clock_s
        )
        runners = [asyncio.create_task(processor.process(waiting)) for _ in range(count)]
        holder = asyncio.create_task(lease.hold())
        stopper = asyncio.create_task(self._wait_for_stop())
        try:
            unfinished: set[asyncio.Task[Any]] = set(runners)
            while unfinished and not holder.done() and not stopper.done():
                watched = unfinished | {holder, stopper}
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                unfinished = {runner for runner in runners if not runner.done()}
            if not holder.done():
                await cancel(*runners)
                for runner in runners:
                    if runner.done() and not runner.cancelled():
                        runner.result()  # a fault of the worker itself must not pass silently
                lease.finish()
            return await self._until_stopped(holder)
        except (LeaseLost, ClientError) as error:
            self._report_loss(error)
            if lease.overslept:
                logger.error(
                    "the event loop did not run for longer than the lease: a function of a worker must not block it; "
                    "run blocking code with asyncio.to_thread"
                )
                processor.fail_calls()
            return False
        finally:
            waiting.clear()  # so that a function that suppresses its cancellation is not followed by another one
            await cancel(stopper, *runners)
            if not holder.done():
                await _end(lease, holder)

    def _report_loss(self, error: LeaseLost | ClientError) -> None:
        logger.warning("lost the lease of the subscription %r: %s", self._worker.subscription, error)

    async def _wait_for_stop(self) -> None:
        """Return when the time is over that running functions have after a stop."""
        await self._stopping.wait()
        await asyncio.sleep(self._worker.stop_s)

    async def _release(self, lease: Lease) -> None:
        lease.finish()
        try:
            await self._until_stopped(lease.hold())
        except (LeaseLost, ClientError) as error:
            self._report_loss(error)


async def _end(lease: Lease, holder: asyncio.Task[bool]) -> None:
    """End the wake of a lease after its run was cancelled."""
    lease.finish()
    await asyncio.wait({holder}, timeout=limits.WORKER_RELEASE_S)
    await cancel(holder)
