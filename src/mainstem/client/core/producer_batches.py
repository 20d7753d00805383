"""The batches that a producer sends, those that failed, and the configuration of a producer."""

from dataclasses import dataclass, field

from mainstem import limits
from mainstem.client.core.errors import BadArgument, BodyTooLarge, ClientError
from mainstem.client.core.retries import Retries


@dataclass(frozen=True)
class Failed:
    """Messages, as they were encoded, that are not stored; with an OutcomeUnknown, perhaps they are."""

    messages: list[bytes]
    error: ClientError
    closes: bool = False
    """The stream was to be closed with them."""


@dataclass(eq=False)
class ProducerBatch:
    messages: list[bytes]
    size: int
    closes: bool = False
    seq: int | None = None
    in_flight: bool = False
    settled: bool = False
    was_first: bool = False
    """Everything before it was settled when it was sent last: a gap is then a real one."""
    maybe_stored: bool = False
    """An attempt may have been stored, and its reply was lost."""
    failures: int = 0
    attempts: int = 0
    not_before_s: float = 0.0
    too_large: BodyTooLarge | None = None

    def split(self) -> "list[ProducerBatch]":
        half = len(self.messages) // 2
        parts = [self.messages[:half], self.messages[half:]]
        made = [ProducerBatch(messages, sum(map(len, messages)) + len(messages)) for messages in parts]
        made[-1].closes = self.closes
        return made


@dataclass(frozen=True, kw_only=True)
class ProducerConfig:
    """How a producer gathers and sends."""

    linger_s: float = limits.PRODUCER_LINGER_S
    batch_bytes: int = limits.PRODUCER_BATCH_BYTES
    batch_messages: int = limits.PRODUCER_BATCH_MESSAGES_MAX
    buffer_bytes: int = limits.PRODUCER_BUFFER_BYTES
    in_flight_max: int = limits.PRODUCER_IN_FLIGHT
    auto_claim: bool = False
    retries: Retries = field(default_factory=lambda: Retries(attempts_max=limits.PRODUCER_ATTEMPTS))

    def __post_init__(self) -> None:
        if not self.linger_s >= 0:
            raise BadArgument(f"linger_s is {self.linger_s}; it must be 0 or more")
        for name in ("batch_bytes", "batch_messages", "buffer_bytes", "in_flight_max"):
            if getattr(self, name) < 1:
                raise BadArgument(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.in_flight_max > limits.PRODUCER_IN_FLIGHT_MAX:
            raise BadArgument(f"in_flight_max is {self.in_flight_max}; the most is {limits.PRODUCER_IN_FLIGHT_MAX}")
