"""Rate limits: one token bucket per caller, in a table of bounded size."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mainstem import limits
from mainstem.errors import RateLimited

CALLERS_MAX: Final = limits.CALLERS_MAX


class Bucket:
    __slots__ = ("filled_us", "tokens")

    def __init__(self, tokens: float, filled_us: int) -> None:
        self.tokens = tokens
        self.filled_us = filled_us


class RateLimits:
    """Allows each caller a number of requests per second. A caller may save up one second's worth."""

    def __init__(self, per_second: int, clock_us: Callable[[], int]) -> None:
        self._per_second = per_second
        self._clock_us = clock_us
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, caller: str) -> float:
        """Count a request and return 0, or return how many seconds to wait, without counting it."""
        now_us = self._clock_us()
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= CALLERS_MAX:
                self._buckets.popitem(last=False)
            bucket = self._buckets[caller] = Bucket(self._per_second, now_us)
        else:
            self._buckets.move_to_end(caller)
            gained = max(now_us - bucket.filled_us, 0) / 1_000_000 * self._per_second
            bucket.tokens = min(bucket.tokens + gained, self._per_second)
            bucket.filled_us = now_us
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_second
        bucket.tokens -= 1
        return 0.0

    def require(self, caller: str) -> None:
        """Count a request. Raises `RateLimited` if the caller is over its rate."""
        wait_s = self.take(caller)
        if wait_s:
            raise RateLimited(
                f"the rate limit is {self._per_second} requests per second",
                headers={"Retry-After": str(math.ceil(wait_s))},
                limit_requests_per_second=self._per_second,
            )
