"""Fair shares: limits on how much of a shared resource one caller may hold at once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from mainstem import limits
from mainstem.errors import RETRY_AFTER, ShareExceeded


class Share(Enum):
    """A shared resource. The value is its name in messages."""

    LIVE_READERS = "live readers"
    SUBSCRIPTIONS = "subscriptions"
    CONNECTIONS = "connections"


DEFAULT_LIMITS: Final[Mapping[Share, int]] = {
    Share.LIVE_READERS: limits.LIVE_READERS_PER_CLIENT_MAX,
    Share.SUBSCRIPTIONS: limits.SUBSCRIPTIONS_PER_CLIENT_MAX,
    Share.CONNECTIONS: limits.CONNECTIONS_PER_CLIENT_MAX,
}


class Shares:
    """Counts what each owner holds.

    An owner that holds nothing takes no memory, so the limits on the totals also bound the size of this table.
    """

    def __init__(self, limits_: Mapping[Share, int] = DEFAULT_LIMITS) -> None:
        self._limits = {**DEFAULT_LIMITS, **limits_}
        self._held: dict[tuple[Share, str], int] = {}

    def take(self, owner: str, share: Share, count: int = 1) -> None:
        """Add `count` to what an owner holds. Raises ShareExceeded, and adds nothing, if that exceeds its share."""
        held = self._held.get((share, owner), 0)
        self.require(share, held + count)
        self._held[share, owner] = held + count

    def release(self, owner: str, share: Share, count: int = 1) -> None:
        left = self._held[share, owner] - count
        assert left >= 0, "more is released than was taken"
        if left:
            self._held[share, owner] = left
        else:
            del self._held[share, owner]

    def require(self, share: Share, count: int) -> None:
        """Raise ShareExceeded if one owner may not hold `count`. For callers that count for themselves."""
        limit = self._limits[share]
        if count > limit:
            raise ShareExceeded(
                f"one client may have at most {limit} {share.value} at once",
                headers=RETRY_AFTER,
                share=share.name.lower(),
                limit=limit,
            )

    @contextmanager
    def hold(self, owner: str, share: Share, count: int = 1) -> Iterator[None]:
        """Hold `count` for the duration of a `with` block."""
        self.take(owner, share, count)
        try:
            yield
        finally:
            self.release(owner, share, count)
