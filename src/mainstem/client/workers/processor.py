"""Processes the streams of one wake: reads their data, and calls the function of the application with it."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import InvalidResponse, NotFound, OffsetGone
from mainstem.client.core.results import Batch
from mainstem.client.workers.core.batches import WorkerBatch
from mainstem.client.workers.core.failures import Failures
from mainstem.client.workers.core.wakes import WakeStream, check_kept
from mainstem.client.workers.lease import Lease
from mainstem.client.workers.tasks import stop_if_cancelled

if TYPE_CHECKING:
    from mainstem.client.workers.runner import Worker

logger = logging.getLogger("mainstem.client")


class StreamProcessor:
    """Processes streams of one wake. Any number of tasks may run `process` at the same time."""

    def __init__(
        self,
        worker: "Worker",
        streams: AsyncStreams,
        lease: Lease,
        failures: Failures,
        busy: set[str],
        stopping: asyncio.Event,
        clock_s: Callable[[], float],
    ) -> None:
        self._worker = worker
        self._streams = streams
        self._operations = streams.operations
        self._retries = replace(self._operations.sender.retries, attempts_max=limits.WORKER_READ_ATTEMPTS)
        self._lease = lease
        self._failures = failures
        self._busy = busy
        self._stopping = stopping
        self._clock_s = clock_s
        self._calls: dict[str, str] = {}
        """Where the data of running calls begins, by stream. A call that has ended after its lease stays here."""

    async def process(self, waiting: deque[WakeStream]) -> None:
        """Process one stream after the other until none is left or the worker is stopped."""
        while waiting and not self._stopping.is_set():
            stream = waiting.popleft()
            self._busy.add(stream.path)
            try:
                await self._process_stream(stream)
            except Exception:  # the server refuses to read the stream, or `resume` failed
                failing = self._failures.record(stream.path, stream.acked_offset, self._clock_s(), called=False)
                logger.exception("cannot process %s (failure %d)", stream.path, failing.failures)
            finally:
                self._busy.discard(stream.path)

    async def _process_stream(self, stream: WakeStream) -> None:
        """Process a stream up to the offset where it ended when it was claimed."""
        offset, trimmed = await self._find_start(stream), False
        if offset > stream.acked_offset:
            self._lease.note(stream.path, offset)
        while offset < stream.tail_offset and not self._stopping.is_set():
            try:
                page = await self._read(stream.path, offset)
            except OffsetGone as error:
                if error.earliest_offset is None or error.earliest_offset <= offset:
                    raise
                reason = "was trimmed, or deleted and created again, before all of it was processed"
                logger.warning("%s %s; it now begins at %s", stream.path, reason, error.earliest_offset)
                offset, trimmed = min(error.earliest_offset, stream.tail_offset), True
                if offset == stream.tail_offset:  # or the same wake would come again: there is nothing to call with
                    self._lease.note(stream.path, offset)
                continue
            except NotFound:
                return  # the stream was deleted
            if page.offset == offset:
                raise InvalidResponse(
                    f"read {stream.path}: the server announces more data but sends none after {offset}"
                )
            if not page.empty:
                if not await self._call(self._make_batch(page, stream.path, offset, trimmed)):
                    return
                trimmed = False
            offset = page.offset
            self._lease.note(stream.path, offset)

    async def _find_start(self, stream: WakeStream) -> str:
        """Return where to read: the acknowledged offset, or the one that the application has kept if it is later."""
        if self._worker.resume is None:
            return stream.acked_offset
        kept: str | None = await self._limit(self._worker.resume, stream.path)
        if kept is None:
            return stream.acked_offset
        check_kept(kept, stream)
        return max(kept, stream.acked_offset)

    async def _read(self, path: str, offset: str) -> Batch:
        request = self._operations.requests.read(path, offset)
        response = await self._streams.run(self._operations.send(request, retries=self._retries))
        return self._operations.read_page(path, response)

    def _make_batch(self, page: Batch, path: str, offset: str, trimmed: bool) -> WorkerBatch:
        return WorkerBatch(
            data=page.data,
            offset=page.offset,
            content_type=page.content_type,
            up_to_date=page.up_to_date,
            closed=page.closed,
            stream=path,
            start_offset=offset,
            attempt=self._failures.count_calls(path, offset) + 1,
            generation=self._lease.claim.generation,
            trimmed=trimmed,
        )

    async def _call(self, batch: WorkerBatch) -> bool:
        """Call the function. Return whether the batch counts as processed."""
        self._calls.setdefault(batch.stream, batch.start_offset)
        try:
            await self._limit(self._worker.handler, batch)
        except Exception as error:  # noqa: BLE001 (any error of the function is a failed attempt)
            del self._calls[batch.stream]
            return await self._fail(batch, error)
        if not self._lease.is_overdue:
            del self._calls[batch.stream]
            self._failures.forget(batch.stream)
        return True

    def fail_calls(self) -> None:
        """Record a failure for the calls during which the lease was lost because the event loop was blocked."""
        for path, offset in self._calls.items():
            calls = self._failures.record(path, offset, self._clock_s()).calls
            logger.error("the lease ended during a call for %s at %s (attempt %d)", path, offset, calls)

    async def _fail(self, batch: WorkerBatch, error: Exception) -> bool:
        """Record a failed call. Return whether `on_failure` has taken care of the batch."""
        calls = self._failures.record(batch.stream, batch.start_offset, self._clock_s()).calls
        place = f"{batch.stream} at {batch.start_offset}"
        logger.warning("the worker's function failed for %s (attempt %d)", place, calls, exc_info=error)
        on_failure = self._worker.on_failure
        if on_failure is None or calls < self._worker.attempts_max:
            return False
        try:
            await self._limit(on_failure, batch, error)
        except Exception:
            logger.exception("on_failure failed for %s; the worker tries the batch again", place)
            return False
        self._failures.forget(batch.stream)
        return True

    async def _limit(self, function: Callable[..., Any], *args: object) -> Any:
        """Call a function of the application and return its answer. Raise `TimeoutError` if that took too long, even if
        the function has suppressed its cancellation and returned."""
        try:
            async with asyncio.timeout(self._worker.timeout_s) as limit:
                answer = function(*args)
                if inspect.isawaitable(answer):
                    answer = await answer
        except asyncio.CancelledError as error:
            raise RuntimeError(f"the function was cancelled from within: {error!r}") from error
        finally:
            stop_if_cancelled()
        if limit.expired():
            raise TimeoutError(f"the function took longer than {self._worker.timeout_s} s")
        return answer
