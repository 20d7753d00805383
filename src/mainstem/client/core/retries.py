"""When to try again, and after how long: exponential backoff with jitter, and the server's Retry-After."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from mainstem import limits
from mainstem.client.core.errors import BadArgument


@dataclass(frozen=True)
class Retries:
    """`attempts_max` counts the first attempt too: 1 never retries, None never gives up."""

    attempts_max: int | None = limits.CLIENT_ATTEMPTS
    delay_s: float = 0.1
    delay_s_max: float = 5.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if self.attempts_max is not None and self.attempts_max < 1:
            raise BadArgument(f"attempts_max is {self.attempts_max}; it counts the first attempt, so 1 is the least")
        if not self.delay_s > 0:
            raise BadArgument(f"delay_s is {self.delay_s}; it must be above 0")
        if not self.delay_s_max >= self.delay_s:
            raise BadArgument(f"delay_s_max is {self.delay_s_max}, less than delay_s, {self.delay_s}")
        if not self.multiplier >= 1:
            raise BadArgument(f"multiplier is {self.multiplier}; below 1 the delays would shrink")

    def allow(self, failures: int) -> bool:
        """Whether one more attempt may follow after that many failed ones."""
        return self.attempts_max is None or failures < self.attempts_max

    def delay(self, failures: int, chance: Callable[[], float]) -> float:
        """Seconds to wait after that many failures. `chance` gives 0 to 1: clients that failed together must not
        come back together."""
        longest = self.delay_s
        for _ in range(failures - 1):
            longest *= self.multiplier
            if longest >= self.delay_s_max:
                longest = self.delay_s_max
                break
        return longest * (0.5 + chance() / 2)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """What Retry-After asks for, in seconds. A date counts from the reply's own Date, whatever the clock here says."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:12])
    else:
        try:
            until = parsedate_to_datetime(value)
            seconds = (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), limits.CLIENT_RETRY_AFTER_S_MAX)
