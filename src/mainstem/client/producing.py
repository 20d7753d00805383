"""What both producers share: the encoding of messages, the requests, and what a reply means to the state."""

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mainstem import limits
from mainstem.client.core import protocol
from mainstem.client.core.batches import Batches
from mainstem.client.core.calls import Calls
from mainstem.client.core.errors import BadArgument, ClientError, ProducerClosed, ResponseError
from mainstem.client.core.exchanges import Call, Lost, describe_loss
from mainstem.client.core.parcels import Failed, Parcel, Rules
from mainstem.client.core.protocol import Request, Response
from mainstem.client.core.retries import Retries
from mainstem.streams.rules.content_types import is_json

OnError = Callable[[Failed], Any]


class Producing:
    """What both producers share: the state, the encoding of messages, and what a reply means to the state."""

    def __init__(
        self,
        calls: Calls,
        path: str,
        producer_id: str | None,
        epoch: int,
        content_type: str | None,
        on_error: OnError | None,
        rules: Rules,
    ) -> None:
        calls.requests.target(path)
        if producer_id == "":
            raise BadArgument("producer_id is empty")
        self.path = path
        self.id = producer_id or uuid.uuid4().hex
        self.content_type = content_type
        self.batches = Batches(rules, epoch, random.random)
        self.clock_s = calls.exchanges.clock_s
        self.on_error = on_error
        self.first_error: ClientError | None = None
        self._calls = calls
        self._json = False

    def learn_type(self) -> Call[None]:
        self.content_type = self.content_type or (yield from self._calls.find_type(self.path))
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

    def request(self, parcel: Parcel, handed: Callable[[], None]) -> Request:
        assert parcel.seq is not None
        body = b"".join(parcel.messages)
        if self._json and parcel.messages:
            body = b"[%b]" % b",".join(parcel.messages)
        content_type = self.content_type if parcel.messages else None
        numbers = (self.id, self.batches.epoch, parcel.seq)
        request = self._calls.requests.append(self.path, body, content_type, producer=numbers, close=parcel.closes)
        return replace(request, handed=handed)

    def attempt(self, request: Request) -> Call[Response | ClientError | Lost]:
        try:
            return (yield from self._calls.exchanges.attempt(request))
        except (ClientError, Lost) as error:
            return error

    def settle(self, parcel: Parcel, request: Request, outcome: Response | BaseException) -> None:
        batches = self.batches
        if isinstance(outcome, Response):
            batches.acknowledge(parcel, duplicate=outcome.status == 204)
        elif isinstance(outcome, ResponseError):
            batches.refuse(parcel, outcome, self.clock_s())
        elif isinstance(outcome, Lost):
            error = describe_loss(request, outcome, self._calls.exchanges.url)
            batches.lose(parcel, error, sent=outcome.sent, now_s=self.clock_s())
        else:
            # A token callable that raised, or a reply that is too large: nothing that a retry would mend.
            unexpected = outcome if isinstance(outcome, ClientError) else ClientError(f"cannot send: {outcome!r}")
            sent = not isinstance(unexpected, BadArgument)
            batches.lose(parcel, unexpected, sent=sent, now_s=self.clock_s())
            batches.fail(unexpected)

    def take_failures(self) -> list[Failed]:
        failures, self.batches.failures = self.batches.failures, []
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


def make_rules(
    linger_s: float,
    batch_bytes: int,
    batch_messages: int,
    buffer_bytes: int,
    in_flight_max: int,
    auto_claim: bool,
    retries: Retries | None,
) -> Rules:
    return Rules(
        linger_s=linger_s,
        batch_bytes=batch_bytes,
        batch_messages=batch_messages,
        buffer_bytes=buffer_bytes,
        in_flight_max=in_flight_max,
        auto_claim=auto_claim,
        retries=retries or Retries(attempts_max=limits.PRODUCER_ATTEMPTS),
    )
