"""The state of an exactly-once producer, without I/O: what to send next, and what each reply changes.

The accumulator collects messages into batches, in order. A batch gets its seq when it is first sent, and keeps it in
every retry, so the server stores it once. Several batches may be in flight, each on its own connection, and may arrive
in another order: the server refuses a batch that arrives too early, and the producer sends it again.

    open ──(full, lingered, flushed)──► sealed ──(sent, gets its seq)──► in flight ──(acknowledged)──► settled
                                                       ▲                     │
                                                       └───── waiting ◄──────┘ (lost, refused for now, too early)

Rules:
1. An acknowledged seq settles every lower seq: the server accepts a number only after the one that precedes it.
2. While a batch waits for its retry, only the first unsettled batch is sent: retries go in order.
3. An epoch begins with one request in flight: its seq 0 must arrive first.
4. A batch is sent after the body of the previous one has left: bodies sent in parallel would often overtake each other.
5. Batches are renumbered, for a new epoch or when they are split, only while nothing is in flight, and only if they are
   certainly not stored.
"""

from collections import deque
from collections.abc import Callable

from mainstem.client.core.errors import (
    BadArgument,
    BodyTooLarge,
    ClientError,
    OutcomeUnknown,
    ProducerClosed,
    ProducerGap,
    ResponseError,
    StaleEpoch,
)
from mainstem.client.core.producer_batches import Failed, ProducerBatch, ProducerConfig
from mainstem.client.core.retries import read_retry_after
from mainstem.client.core.sender import INCONCLUSIVE, was_not_processed

CLAIMS_MAX = 10  # epochs claimed in a row without storing anything: another instance keeps claiming too


class Accumulator:
    """The state of one producer. It is not thread-safe: callers that share it must hold a lock.

    Times are monotonic seconds, which the caller passes.
    """

    def __init__(self, config: ProducerConfig, epoch: int, chance: Callable[[], float]) -> None:
        if epoch < 0:
            raise BadArgument(f"epoch is {epoch}; it must be at least 0")
        self.config = config
        self.epoch = epoch
        self.buffered = 0
        """How many bytes are not settled."""
        self.added = 0
        self.settled = 0
        """How many messages were added, and how many of them are stored or have failed."""
        self.duplicates = 0
        """How many messages the server already had although this producer had not sent them before."""
        self.failures: list[Failed] = []
        """The failures that have not been reported yet."""
        self.ended: ClientError | None = None
        """Why the producer accepts no more messages."""
        self._chance = chance
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_since_s = 0.0
        self._flushing = False
        self._batches: deque[ProducerBatch] = deque()
        """All batches that are not settled, in order. Those with a seq come first."""
        self._numbered = 0
        self._waiting = 0
        """How many batches have a seq, and how many of those are not in flight."""
        self._in_flight = 0
        self._sending: ProducerBatch | None = None
        self._next_seq = 0
        self._confirmed = False
        self._claim: int | None = None
        self._claims = 0
        self._failing: ClientError | None = None

    # Adding messages

    def add(self, message: bytes, now_s: float) -> bool:
        """Add a message. Return whether to wake the sender: a batch was started, or is full."""
        if self.ended is not None:
            raise self._refusal()
        size = len(message) + 1  # a comma, in a stream of JSON
        begun = not self._open
        if begun:
            self._open_since_s = now_s
        elif self._open_bytes + size > self.config.batch_bytes:
            self._seal()
            self._open_since_s = now_s
            begun = True
        self._open.append(message)
        self._open_bytes += size
        self.buffered += size
        self.added += 1
        if self._open_bytes >= self.config.batch_bytes or len(self._open) >= self.config.batch_messages:
            self._seal()
            return True
        return begun

    @property
    def full(self) -> bool:
        return self.buffered >= self.config.buffer_bytes

    @property
    def idle(self) -> bool:
        return not (self._open or self._batches)

    def flush(self) -> None:
        """Send what has been added, without waiting for more."""
        self._flushing = bool(self._open)

    def close_stream(self, message: bytes | None, now_s: float) -> None:
        """Close the stream after everything else, with an optional last message, and accept no more messages."""
        if message is not None:
            self.add(message, now_s)
        elif self.ended is not None:
            raise self._refusal()
        if self._open:
            self._seal()
        last = self._batches[-1] if self._batches else None
        if last is not None and last.seq is None:
            last.closes = True
        else:
            self._batches.append(ProducerBatch([], 0, closes=True))
        self.end(ProducerClosed("this producer has closed the stream"))

    def end(self, reason: ClientError) -> None:
        """Accept no more messages. Those that were added are still sent."""
        self.ended = self.ended or reason

    def _refusal(self) -> ProducerClosed:
        assert self.ended is not None
        refusal = ProducerClosed(f"this producer accepts no more messages: {self.ended.detail}")
        refusal.__cause__ = self.ended
        return refusal

    def _seal(self) -> None:
        self._batches.append(ProducerBatch(self._open, self._open_bytes))
        self._open = []
        self._open_bytes = 0
        self._flushing = False

    # Sending batches

    def next(self, now_s: float) -> ProducerBatch | None:
        """Return the batch to send now, if there is one."""
        if self._is_held():
            return None
        if self._claim is not None:
            self._begin_epoch(self._claim)
            return self.next(now_s)
        if self._waiting:
            first = self._batches[0]
            if first.too_large is not None:
                self._split(first, first.too_large)
                return self.next(now_s)
            if first.not_before_s > now_s:
                return None
            self._waiting -= 1
            return self._mark_in_flight(first)
        if len(self._batches) == self._numbered:
            if not self._open or not (self._flushing or now_s >= self._open_since_s + self.config.linger_s):
                return None
            self._seal()
        batch = self._batches[self._numbered]
        batch.seq = self._next_seq
        self._next_seq += 1
        self._numbered += 1
        return self._mark_in_flight(batch)

    def wait_s(self, now_s: float) -> float | None:
        """Return after how many seconds `next` may return a batch if nothing else happens; None if it will not."""
        if self._is_held():
            return None
        if self._claim is not None:
            return 0.0
        if self._waiting:
            return max(0.0, self._batches[0].not_before_s - now_s)
        if len(self._batches) > self._numbered or (self._open and self._flushing):
            return 0.0
        if not self._open:
            return None
        return max(0.0, self._open_since_s + self.config.linger_s - now_s)

    def _is_held(self) -> bool:
        """Return whether something else must happen before anything can be sent."""
        if self._failing is not None or self._sending is not None:
            return True
        if self._claim is not None:
            return self._in_flight > 0
        if self._waiting:
            first = self._batches[0]
            return first.in_flight or (first.too_large is not None and self._in_flight > 0)
        return self._in_flight >= (self.config.in_flight_max if self._confirmed else 1)

    def _mark_in_flight(self, batch: ProducerBatch) -> ProducerBatch:
        batch.in_flight = True
        batch.was_first = batch is self._batches[0]
        batch.attempts += 1
        self._in_flight += 1
        self._sending = batch
        return batch

    # Replies

    def mark_sent(self, batch: ProducerBatch) -> None:
        """Note that the whole batch has left, so the next one may follow."""
        if self._sending is batch:
            self._sending = None

    def acknowledge(self, batch: ProducerBatch, *, duplicate: bool) -> None:
        """Settle a batch that is stored, and with it every earlier one."""
        if self._remove_in_flight(batch):
            assert batch.seq is not None
            if duplicate and batch.attempts == 1 and batch.messages:
                # Only another instance with the same id and epoch can have stored this number.
                if self.config.auto_claim:
                    self._claim_epoch(self.epoch + 1)
                    return
                self.duplicates += len(batch.messages)
            self._confirmed = True
            self._claims = 0
            while self._numbered and self._first_seq() <= batch.seq:
                self._settle_first()
        self._finish_failing()

    def lose(self, batch: ProducerBatch, error: ClientError, *, sent: bool, now_s: float) -> None:
        """Handle a batch that got no reply."""
        if self._remove_in_flight(batch):
            batch.maybe_stored = batch.maybe_stored or sent
            self._try_again(batch, error, 0.0, now_s)
        self._finish_failing()

    def refuse(self, batch: ProducerBatch, error: ResponseError, now_s: float) -> None:
        """Handle a batch that the server refused."""
        if self._remove_in_flight(batch):
            self._handle_refusal(batch, error, now_s)
        self._finish_failing()

    def fail(self, error: ClientError) -> None:
        """Give up. Batches in flight may still succeed; everything else fails."""
        self._failing = self._failing or error
        self.end(error)
        self._finish_failing()

    def _handle_refusal(self, batch: ProducerBatch, error: ResponseError, now_s: float) -> None:
        if isinstance(error, ProducerGap) and not batch.was_first:
            return  # it arrived too early, and will be sent again
        if isinstance(error, StaleEpoch) and self.config.auto_claim and error.current_epoch is not None:
            self._claim_epoch(error.current_epoch + 1)
        elif isinstance(error, BodyTooLarge) and not batch.maybe_stored:
            batch.too_large = error
        elif error.retryable:
            batch.maybe_stored = batch.maybe_stored or not was_not_processed(error)
            self._try_again(batch, error, read_retry_after(error.headers) or 0.0, now_s)
        else:
            if not isinstance(error, INCONCLUSIVE):
                batch.maybe_stored = False
            self.fail(error)

    def _remove_in_flight(self, batch: ProducerBatch) -> bool:
        """Note that a batch is no longer in flight. Return False if a later one has already settled it."""
        assert batch.in_flight
        self.mark_sent(batch)
        batch.in_flight = False
        self._in_flight -= 1
        if batch.settled:
            return False
        self._waiting += 1
        return True

    def _first_seq(self) -> int:
        seq = self._batches[0].seq
        assert seq is not None
        return seq

    def _settle_first(self) -> ProducerBatch:
        """Settle and remove the first batch, which has a number."""
        batch = self._batches.popleft()
        self._numbered -= 1
        if not batch.in_flight:
            self._waiting -= 1
        batch.settled = True
        self.buffered -= batch.size
        self.settled += len(batch.messages)
        return batch

    def _try_again(self, batch: ProducerBatch, error: ClientError, wait_s: float, now_s: float) -> None:
        batch.failures += 1
        if self.config.retries.allow(batch.failures):
            batch.not_before_s = now_s + max(wait_s, self.config.retries.delay(batch.failures, self._chance))
        else:
            self.fail(error)

    def _claim_epoch(self, epoch: int) -> None:
        """Take over from another instance as soon as nothing is in flight."""
        self._claim = max(epoch, self._claim or 0)

    def _begin_epoch(self, epoch: int) -> None:
        """Renumber everything. Batches that an earlier epoch may have stored are not sent again, but reported."""
        self._claim = None
        self._claims += 1
        if self._claims > CLAIMS_MAX:
            self.fail(ProducerClosed(f"another producer with this id claimed the epoch {CLAIMS_MAX} times in a row"))
            return
        self.epoch = epoch
        self._confirmed = False
        self._next_seq = 0
        kept: deque[ProducerBatch] = deque()
        while self._batches:
            batch = self._batches.popleft()
            if not batch.maybe_stored:
                batch.seq, batch.attempts = None, 0
                kept.append(batch)
                continue
            lost = OutcomeUnknown("the reply was lost, and then another instance took over this producer")
            self._report(batch, lost)
        self._batches, self._numbered, self._waiting = kept, 0, 0

    def _split(self, batch: ProducerBatch, error: BodyTooLarge) -> None:
        """Split a batch that is too large for the server into halves, or report a single message that is too large."""
        if any(other.maybe_stored for other in self._batches):
            self.fail(error)  # a batch could still arrive with a number that now belongs to another one
            return
        self._next_seq = self._first_seq()
        self._batches.popleft()
        for other in self._batches:
            other.seq, other.attempts = None, 0
        self._numbered = self._waiting = 0
        if len(batch.messages) > 1:
            self._batches.extendleft(reversed(batch.split()))
            return
        self._report(batch, error)
        if batch.closes:
            self._batches.appendleft(ProducerBatch([], 0, closes=True))

    def _report(self, batch: ProducerBatch, error: ClientError) -> None:
        batch.settled = True
        self.buffered -= batch.size
        self.settled += len(batch.messages)
        self.failures.append(Failed(batch.messages, error, batch.closes))

    def _finish_failing(self) -> None:
        """Report everything that is left as failed, once nothing is in flight."""
        if self._failing is None or self._in_flight:
            return
        if self._open:
            self._seal()
        for batch in self._batches:
            error = self._failing
            if batch.maybe_stored:
                error = OutcomeUnknown(f"an attempt may have been stored, and then this failed: {self._failing.detail}")
                error.__cause__ = self._failing
            self._report(batch, error)
        self._batches.clear()
        self._numbered = self._waiting = 0
