"""The batches that a producer sends, the failures that it reports, and its configuration."""

from dataclasses import dataclass, field

from mainstem import limits
from mainstem.client.core.errors import BadArgument, BodyTooLarge, ClientError
from mainstem.client.core.retries import Retries


@dataclass(frozen=True)
class Failed:
    """Encoded messages that are not stored; if the error is an OutcomeUnknown, they may be."""

    messages: list[bytes]
    error: ClientError
    closes: bool = False
    """Whether these messages were to close the stream."""


@dataclass(eq=False)
class ProducerBatch:
    messages: list[bytes]
    size: int
    closes: bool = False
    seq: int | None = None
    in_flight: bool = False
    settled: bool = False
    was_first: bool = False
    """Whether everything before it was settled when it was last sent. Only then is a gap a real one."""
    maybe_stored: bool = False
    """Whether an attempt may have been stored although its reply was lost."""
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
    """How a producer collects and sends messages."""

    linger_s: float = limits.PRODUCER_LINGER_S
    batch_bytes: int = limits.PRODUCER_BATCH_BYTES
    batch_messages: int = limits.PRODUCER_BATCH_MESSAGES_MAX
    buffer_bytes: int = limits.PRODUCER_BUFFER_BYTES
    in_flight_max: int = limits.PRODUCER_IN_FLIGHT
    auto_claim: bool = False
    retries: Retries = field(default_factory=lambda: Retries(attempts_max=limits.PRODUCER_ATTEMPTS))

    def __post_init__(self) -> None:
        if not self.linger_s >= 0:
            raise BadArgument(f"linger_s is {self.linger_s}; it must be at least 0")
        for name in ("batch_bytes", "batch_messages", "buffer_bytes", "in_flight_max"):
            if getattr(self, name) < 1:
                raise BadArgument(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.in_flight_max > limits.PRODUCER_IN_FLIGHT_MAX:
            raise BadArgument(
                f"in_flight_max is {self.in_flight_max}; it must be at most {limits.PRODUCER_IN_FLIGHT_MAX}"
            )
