"""The exactly-once producer for asyncio, which sends batches in the background. core/accumulator.py holds its state."""

import asyncio
import inspect
import logging
from functools import partial
from types import TracebackType
from typing import Any, Self

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import ClientError, ProducerClosed
from mainstem.client.core.producer import OnError, ProducerCore, make_config, note_failure, refuse_to_wait
from mainstem.client.core.producer_batches import ProducerBatch
from mainstem.client.core.protocol import Response
from mainstem.client.core.retries import Retries

logger = logging.getLogger(__name__)


class AsyncIdempotentProducer:
    """Appends messages in the background, each of them once and in order.

        async with AsyncIdempotentProducer(streams, "events") as producer:
            await producer.append({"n": 1})

    `append` returns as soon as the message is in the buffer, and waits only while the buffer is full. `on_error`
    receives what could not be stored; without it, `flush` and `close` raise the first failure. Leaving the block sends
    what is left.
    """

    def __init__(
        self,
        streams: AsyncStreams,
        path: str,
        *,
        producer_id: str | None = None,
        epoch: int = 0,
        auto_claim: bool = False,
        content_type: str | None = None,
        on_error: OnError | None = None,
        linger_s: float = limits.PRODUCER_LINGER_S,
        batch_bytes: int = limits.PRODUCER_BATCH_BYTES,
        batch_messages: int = limits.PRODUCER_BATCH_MESSAGES_MAX,
        buffer_bytes: int = limits.PRODUCER_BUFFER_BYTES,
        in_flight_max: int = limits.PRODUCER_IN_FLIGHT,
        retries: Retries | None = None,
    ) -> None:
        config = make_config(linger_s, batch_bytes, batch_messages, buffer_bytes, in_flight_max, auto_claim, retries)
        self._streams = streams
        self._core = ProducerCore(streams.operations, path, producer_id, epoch, content_type, on_error, config)
        self._accumulator = self._core.accumulator
        self._clock_s = self._core.clock_s
        self._begun = False
        self._beginning = asyncio.Lock()
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._closes_stream = False
        self._sender: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientError as failure:
            if note_failure(error, failure):
                raise

    @property
    def producer_id(self) -> str:
        return self._core.id

    @property
    def epoch(self) -> int:
        """The current epoch; `auto_claim` raises it."""
        return self._accumulator.epoch

    @property
    def duplicates(self) -> int:
        """How many messages the server already had from another instance with the same id and epoch."""
        return self._accumulator.duplicates

    async def append(self, message: Any) -> None:
        """Add a message to the buffer. Wait only while the buffer is full."""
        if not self._begun:
            await self._begin()
        accumulator = self._accumulator
        encoded = self._core.encode(message)
        while accumulator.full and accumulator.ended is None:
            refuse_to_wait(self._in_on_error, "append to a full buffer")
            await self._progress.wait()
        if accumulator.add(encoded, self._clock_s()):
            self._wake.set()
            await asyncio.sleep(0)  # a loop of appends must let the sender run

    async def flush(self) -> None:
        """Wait until every message so far is stored or has failed. Without on_error, raise the first failure."""
        target = self._accumulator.added
        self._accumulator.flush()
        self._wake.set()
        while self._accumulator.settled < target:
            refuse_to_wait(self._in_on_error, "flush")
            await self._progress.wait()
        self._raise_failure()

    async def close_stream(self, message: Any = None) -> None:
        """Close the stream after everything else, with an optional last message; then close this producer."""
        if not self._begun:
            await self._begin()
        if not self._closes_stream:
            last = None if message is None else self._core.encode(message)
            self._accumulator.close_stream(last, self._clock_s())
            self._closes_stream = True
        await self.close()

    async def close(self) -> None:
        """Send what is left and accept no more messages. The stream stays open. Within on_error it does not wait."""
        self._accumulator.end(ProducerClosed("this producer was closed"))
        self._accumulator.flush()
        self._wake.set()
        if self._sender is not None and not self._in_on_error:
            await asyncio.shield(self._sender)
        self._raise_failure()

    @property
    def _in_on_error(self) -> bool:
        return self._sender is not None and asyncio.current_task() is self._sender

    async def _begin(self) -> None:
        async with self._beginning:
            if not self._begun:
                await self._streams.run(self._core.learn_type())
                self._sender = asyncio.create_task(self._send_batches())
                self._begun = True

    async def _send_batches(self) -> None:
        accumulator = self._accumulator
        while True:
            self._wake.clear()
            while (batch := accumulator.next(self._clock_s())) is not None:
                sending = asyncio.create_task(self._send(batch))
                self._requests.add(sending)
                sending.add_done_callback(self._requests.discard)
            await self._report()
            if accumulator.ended is not None and accumulator.idle:
                await asyncio.gather(*self._requests)  # a later reply can settle a batch whose own reply is missing
                return
            try:
                async with asyncio.timeout(accumulator.wait_s(self._clock_s())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _send(self, batch: ProducerBatch) -> None:
        request = self._core.request(batch, partial(self._mark_sent, batch))
        outcome: Response | BaseException
        try:
            outcome = await self._streams.run(self._core.attempt(request))
        except Exception as error:  # noqa: BLE001 - from a callable of the application; the producer fails with it
            outcome = error
        self._core.report(self._core.settle(batch, request, outcome))
        self._wake.set()
        self._notify_progress()

    def _mark_sent(self, batch: ProducerBatch) -> None:
        self._accumulator.mark_sent(batch)
        self._wake.set()

    async def _report(self) -> None:
        failures = self._core.take_failures()
        if not failures:
            return
        self._notify_progress()
        for failed in failures:
            if self._core.on_error is not None:
                try:
                    handled = self._core.on_error(failed)
                    if inspect.isawaitable(handled):
                        await handled
                except Exception:
                    logger.exception("on_error raised an exception; the producer continues")

    def _notify_progress(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    def _raise_failure(self) -> None:
        error = self._core.take_error()
        if error is not None:
            raise error
