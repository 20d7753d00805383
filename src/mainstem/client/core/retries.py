"""When to retry, and after how long: exponential backoff with jitter, and the server's `Retry-After`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from mainstem import limits
from mainstem.client.core.errors import BadArgument, ClientError


@dataclass(frozen=True)
class Retries:
    """How often, and after which delays, a failed request is sent again.

    `attempts_max` counts the first attempt: with 1 the client never retries, with None it never gives up.
    """

    attempts_max: int | None = limits.CLIENT_ATTEMPTS
    delay_s: float = 0.1
    delay_s_max: float = 5.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if self.attempts_max is not None and self.attempts_max < 1:
            raise BadArgument(f"attempts_max is {self.attempts_max}; it counts the first attempt, so 1 is the least")
        if not self.delay_s > 0:
            raise BadArgument(f"delay_s is {self.delay_s}; it must be greater than 0")
        if not self.delay_s_max >= self.delay_s:
            raise BadArgument(f"delay_s_max is {self.delay_s_max}; it must be at least delay_s ({self.delay_s})")
        if not self.multiplier >= 1:
            raise BadArgument(f"multiplier is {self.multiplier}; it must be at least 1")

    def allow(self, failures: int) -> bool:
        """Return whether another attempt may follow after that many failures."""
        return self.attempts_max is None or failures < self.attempts_max

    def delay(self, failures: int, chance: Callable[[], float]) -> float:
        """Return how many seconds to wait after that many failures.

        `chance` returns a number from 0 to 1. It spreads the retries of clients that failed at the same moment.
        """
        return self._delay_max(failures) * (0.5 + chance() / 2)

    def remaining_s(self, failures: int) -> float | None:
        """Return the longest time that all further delays can add up to; None if the client never gives up."""
        if self.attempts_max is None:
            return None
        return sum(self._delay_max(number) for number in range(failures, self.attempts_max))

    def _delay_max(self, failures: int) -> float:
        longest = self.delay_s
        for _ in range(failures - 1):
            longest *= self.multiplier
            if longest >= self.delay_s_max:
                return self.delay_s_max
        return longest


@dataclass(frozen=True)
class Retry:
    """An attempt that failed and that the client will repeat; `on_retry` receives it, and `str` describes it."""

    call: str
    """The call and the stream, such as `append chat/1`."""
    url: str
    """The address of the server."""
    error: ClientError
    """Why the attempt failed."""
    failures: int
    """How many attempts of this call have failed so far."""
    attempts_max: int | None
    """How many attempts the call makes at most; None if it never gives up."""
    wait_s: float
    """How long the client waits before the next attempt."""
    remaining_s: float | None
    """How long the client waits at most, in all, before it gives up; None if it never does."""

    def __str__(self) -> str:
        reason = self.error.detail if self.url in self.error.detail else f"{self.error.detail} (at {self.url})"
        following = f"attempt {self.failures + 1}"
        until = "retrying until the server answers"
        if self.attempts_max is not None and self.remaining_s is not None:
            following += f" of {self.attempts_max}"
            until = f"giving up after at most {max(1, round(self.remaining_s))} s"
        return f"{reason}; {following} in {self.wait_s:.1f} s, {until}"


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds `Retry-After` asks the client to wait; None if it asks for nothing that can be read.

    A date counts from the reply's own `Date`, so a wrong clock on this machine does not matter.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:12])
    else:
        try:
            until = parsedate_to_datetime(value)
            seconds = (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), limits.CLIENT_RETRY_AFTER_S_MAX)
