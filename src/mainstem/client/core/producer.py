"""The part that both producers share: encoding messages, building requests, and applying replies to the state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mainstem import limits
from mainstem.client.core import protocol
from mainstem.client.core.accumulator import Accumulator
from mainstem.client.core.effects import NoResponse, Operation
from mainstem.client.core.errors import BadArgument, ClientError, ProducerClosed, ResponseError
from mainstem.client.core.operations import Operations
from mainstem.client.core.producer_batches import Failed, ProducerBatch, ProducerConfig
from mainstem.client.core.protocol import Request, Response
from mainstem.client.core.retries import Retries, Retry
from mainstem.streams.rules.content_types import is_json

OnError = Callable[[Failed], Any]


class ProducerCore:
    """The state of one producer, how it encodes messages, and how it applies replies."""

    def __init__(
        self,
        operations: Operations,
        path: str,
        producer_id: str | None,
        epoch: int,
        content_type: str | None,
        on_error: OnError | None,
        config: ProducerConfig,
    ) -> None:
        operations.requests.target(path)
        if producer_id == "":
            raise BadArgument("producer_id must not be empty")
        self.path = path
        self.id = producer_id or operations.make_id()
        self.content_type = content_type
        self.accumulator = Accumulator(config, epoch, operations.sender.chance)
        self.clock_s = operations.sender.clock_s
        self.on_error = on_error
        self.first_error: ClientError | None = None
        self._operations = operations
        self._json = False

    def learn_type(self) -> Operation[None]:
        self.content_type = self.content_type or (yield from self._operations.find_type(self.path, "append"))
        self._json = is_json(self.content_type)

    def encode(self, message: Any) -> bytes:
        """Return a message as bytes. Bytes stay as they are; for a JSON stream they must be one JSON value."""
        if type(message) is bytes:
            encoded = message
        elif self._json and not isinstance(message, (bytearray, memoryview)):
            return protocol.encode_value(message)
        else:
            encoded = protocol.encode(message, self.content_type or protocol.BINARY)
        if not encoded:
            raise BadArgument("there is nothing to append: the message is empty")
        return encoded

    def request(self, batch: ProducerBatch, on_body_sent: Callable[[], None]) -> Request:
        assert batch.seq is not None
        body = b"".join(batch.messages)
        if self._json and batch.messages:
            body = b"[%b]" % b",".join(batch.messages)
        content_type = self.content_type if batch.messages else None
        numbers = (self.id, self.accumulator.epoch, batch.seq)
        request = self._operations.requests.append(self.path, body, content_type, producer=numbers, close=batch.closes)
        return replace(request, on_body_sent=on_body_sent)

    def attempt(self, request: Request) -> Operation[Response | ClientError | NoResponse]:
        try:
            return (yield from self._operations.sender.attempt(request))
        except (ClientError, NoResponse) as error:
            return error

    def settle(self, batch: ProducerBatch, request: Request, outcome: Response | BaseException) -> Retry | None:
        """Apply the outcome of an attempt. If the batch will be sent again, return the retry to report."""
        accumulator, sender, failures = self.accumulator, self._operations.sender, batch.failures
        error: ClientError
        if isinstance(outcome, Response):
            accumulator.acknowledge(batch, duplicate=outcome.status == 204)
            return None
        elif isinstance(outcome, ResponseError):
            error = outcome
            accumulator.refuse(batch, outcome, self.clock_s())
        elif isinstance(outcome, NoResponse):
            error = sender.explain(request, outcome)
            accumulator.lose(batch, error, sent=outcome.sent, now_s=self.clock_s())
            if outcome.is_final:
                accumulator.fail(error)
        else:
            # A token callable that raised, or a reply that is too large: a retry would fail in the same way.
            error = outcome if isinstance(outcome, ClientError) else ClientError(f"{request} failed: {outcome!r}")
            sent = not isinstance(error, BadArgument)
            accumulator.lose(batch, error, sent=sent, now_s=self.clock_s())
            accumulator.fail(error)
        if batch.failures == failures or batch.settled:
            return None
        wait_s = max(0.0, batch.not_before_s - self.clock_s())
        return sender.describe_retry(request, error, batch.failures, accumulator.config.retries, wait_s)

    def report(self, retry: Retry | None) -> None:
        if retry is not None:
            self._operations.sender.report(retry)

    def take_failures(self) -> list[Failed]:
        failures, self.accumulator.failures = self.accumulator.failures, []
        if failures and self.on_error is None:
            self.first_error = self.first_error or failures[0].error
        return failures

    def take_error(self) -> ClientError | None:
        """Return what flush and close raise: the first failure since the last call. With on_error there is none."""
        error, self.first_error = self.first_error, None
        return error


def refuse_to_wait(waiting: bool, name: str) -> None:
    """Refuse a call within on_error that would wait for the sender: the sender itself is waiting for on_error."""
    if waiting:
        raise BadArgument(f"{name} would wait forever within on_error: call it elsewhere")


def note_failure(error: BaseException | None, failure: ClientError) -> bool:
    """Return whether the `with` block of a producer should raise the producer's failure.

    An error that the block itself raised, or its cancellation, must get through: it only gets a note. A ProducerClosed
    is the same failure again.
    """
    if error is None or isinstance(error, ProducerClosed):
        return True
    error.add_note(f"In addition, a producer could not store its messages: {failure}")
    return False


def make_config(
    linger_s: float,
    batch_bytes: int,
    batch_messages: int,
    buffer_bytes: int,
    in_flight_max: int,
    auto_claim: bool,
    retries: Retries | None,
) -> ProducerConfig:
    return ProducerConfig(
        linger_s=linger_s,
        batch_bytes=batch_bytes,
        batch_messages=batch_messages,
        buffer_bytes=buffer_bytes,
        in_flight_max=in_flight_max,
        auto_claim=auto_claim,
        retries=retries or Retries(attempts_max=limits.PRODUCER_ATTEMPTS),
    )
