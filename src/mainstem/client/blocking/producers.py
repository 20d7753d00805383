"""The exactly-once producer for blocking code: the twin of `AsyncIdempotentProducer`. It sends on its own threads."""

import logging
import threading
from functools import partial
from types import TracebackType
from typing import Any, Self

from mainstem import limits
from mainstem.client.blocking.streams import Streams
from mainstem.client.core.errors import ClientError, ProducerClosed
from mainstem.client.core.producer import OnError, ProducerCore, make_config, note_failure, refuse_to_wait
from mainstem.client.core.producer_batches import Failed, ProducerBatch
from mainstem.client.core.protocol import Response
from mainstem.client.core.retries import Retries

logger = logging.getLogger(__name__)


class IdempotentProducer:
    """Appends messages in the background, each of them once and in order.

        with IdempotentProducer(streams, "events") as producer:
            producer.append({"n": 1})

    It works like `AsyncIdempotentProducer`, and sends on threads of its own; it calls `on_error` on one of them.
    """

    def __init__(
        self,
        streams: Streams,
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
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._closes_stream = False
        self._senders: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
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

    def append(self, message: Any) -> None:
        """Add a message to the buffer. Wait only while the buffer is full."""
        if not self._begun:
            self._begin()
        accumulator = self._accumulator
        encoded = self._core.encode(message)
        with self._lock:
            while accumulator.full and accumulator.ended is None:
                refuse_to_wait(self._in_on_error, "append to a full buffer")
                self._progress.wait()
            if accumulator.add(encoded, self._clock_s()):
                self._wake.notify()

    def flush(self) -> None:
        """Wait until every message so far is stored or has failed. Without on_error, raise the first failure."""
        with self._lock:
            target = self._accumulator.added
            self._accumulator.flush()
            self._wake.notify_all()
            while self._accumulator.settled < target:
                refuse_to_wait(self._in_on_error, "flush")
                self._progress.wait()
        self._raise_failure()

    def close_stream(self, message: Any = None) -> None:
        """Close the stream after everything else, with an optional last message; then close this producer."""
        if not self._begun:
            self._begin()
        with self._lock:
            if not self._closes_stream:
                last = None if message is None else self._core.encode(message)
                self._accumulator.close_stream(last, self._clock_s())
                self._closes_stream = True
        self.close()

    def close(self) -> None:
        """Send what is left and accept no more messages. The stream stays open. Within on_error it does not wait."""
        with self._lock:
            self._accumulator.end(ProducerClosed("this producer was closed"))
            self._accumulator.flush()
            self._wake.notify_all()
        if not self._in_on_error:
            for sender in self._senders:
                sender.join()
        self._raise_failure()

    @property
    def _in_on_error(self) -> bool:
        return threading.current_thread() in self._senders

    def _begin(self) -> None:
        self._streams.run(self._core.learn_type())
        with self._lock:
            if self._begun:
                return
            for number in range(self._accumulator.config.in_flight_max):
                name = f"mainstem-producer-{self._core.id}-{number}"
                sender = threading.Thread(target=self._send_batches, name=name, daemon=True)
                self._senders.append(sender)
                sender.start()
            self._begun = True

    def _send_batches(self) -> None:
        while (batch := self._take_batch()) is not None:
            request = self._core.request(batch, partial(self._mark_sent, batch))
            outcome: Response | BaseException
            try:
                outcome = self._streams.run(self._core.attempt(request))
            except Exception as error:  # noqa: BLE001 - from a callable of the application; the producer fails with it
                outcome = error
            with self._lock:
                retry = self._core.settle(batch, request, outcome)
                failures = self._core.take_failures()
                self._wake.notify_all()
                self._progress.notify_all()
            self._core.report(retry)
            self._report(failures)

    def _mark_sent(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._accumulator.mark_sent(batch)
            self._wake.notify()

    def _take_batch(self) -> ProducerBatch | None:
        """Wait for the next batch and return it; return None when there will be no more."""
        accumulator = self._accumulator
        with self._lock:
            while True:
                batch = accumulator.next(self._clock_s())
                if batch is not None:
                    return batch
                if accumulator.ended is not None and accumulator.idle:
                    self._wake.notify_all()
                    return None
                self._wake.wait(accumulator.wait_s(self._clock_s()))

    def _report(self, failures: list[Failed]) -> None:
        for failed in failures:
            if self._core.on_error is not None:
                try:
                    self._core.on_error(failed)
                except Exception:
                    logger.exception("on_error raised an exception; the producer continues")

    def _raise_failure(self) -> None:
        with self._lock:
            error = self._core.take_error()
        if error is not None:
            raise error
