"""What both producers share: the encoding of messages, the requests, and what a reply means to the state."""

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
from mainstem.client.core.retries import Retries
from mainstem.client.core.sender import explain_no_response
from mainstem.streams.rules.content_types import is_json

OnError = Callable[[Failed], Any]


class ProducerCore:
    """What both producers share: the state, the encoding of messages, and what a reply means to the state."""

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
            raise BadArgument("producer_id is empty")
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
        self.content_type = self.content_type or (yield from self._operations.find_type(self.path))
        self._json = is_json(self.content_type)

    def encode(self, message: Any) -> bytes:
        """Bytes are taken as they are: of a JSON stream, as one message that is JSON already."""
        if type(message) is bytes:
            encoded = message
        elif self._json and not isinstance(message, (bytearray, memoryview)):
            return protocol.encode_value(message)
        else:
            encoded = protocol.encode(message, self.content_type or protocol.BINARY)
        if not encoded:
            raise BadArgument("a message is empty, so there is nothing to append")
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

    def settle(self, batch: ProducerBatch, request: Request, outcome: Response | BaseException) -> None:
        accumulator = self.accumulator
        if isinstance(outcome, Response):
            accumulator.acknowledge(batch, duplicate=outcome.status == 204)
        elif isinstance(outcome, ResponseError):
            accumulator.refuse(batch, outcome, self.clock_s())
        elif isinstance(outcome, NoResponse):
            error = explain_no_response(request, outcome, self._operations.sender.url)
            accumulator.lose(batch, error, sent=outcome.sent, now_s=self.clock_s())
        else:
            # A token callable that raised, or a reply that is too large: nothing that a retry would mend.
            unexpected = outcome if isinstance(outcome, ClientError) else ClientError(f"cannot send: {outcome!r}")
            sent = not isinstance(unexpected, BadArgument)
            accumulator.lose(batch, unexpected, sent=sent, now_s=self.clock_s())
            accumulator.fail(unexpected)

    def take_failures(self) -> list[Failed]:
        failures, self.accumulator.failures = self.accumulator.failures, []
        if failures and self.on_error is None:
            self.first_error = self.first_error or failures[0].error
        return failures

    def take_error(self) -> ClientError | None:
        """What flush and close raise: the first failure since they were asked last, unless on_error hears of them."""
        error, self.first_error = self.first_error, None
        return error


def refuse_to_wait(waiting: bool, name: str) -> None:
    """on_error is called by what sends, so nothing would come of what it waits for."""
    if waiting:
        raise BadArgument(f"{name} would wait for ever within on_error: call it elsewhere")


def note_failure(error: BaseException | None, failure: ClientError) -> bool:
    """Whether a failure is what leaves the block of a producer. An error of the block itself, or its cancellation, must
    get through, so it only gets a note; a ProducerClosed there is the failure once more."""
    if error is None or isinstance(error, ProducerClosed):
        return True
    error.add_note(f"Besides, a producer could not store its messages: {failure}")
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
