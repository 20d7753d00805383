"""Fair shares: how much one caller may hold at once of what all of them need, so that nobody takes all of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from mainstem import limits
from mainstem.errors import RETRY_AFTER, ShareExceeded


class Share(Enum):
    """What is shared; the value is how people call it."""

    LIVE_READERS = "live readers"
    SUBSCRIPTIONS = "subscriptions"
    CONNECTIONS = "connections"


DEFAULT_LIMITS: Final[Mapping[Share, int]] = {
    Share.LIVE_READERS: limits.LIVE_READERS_PER_CLIENT_MAX,
    Share.SUBSCRIPTIONS: limits.SUBSCRIPTIONS_PER_CLIENT_MAX,
    Share.CONNECTIONS: limits.CONNECTIONS_PER_CLIENT_MAX,
}


class Shares:
    """Counts what each owner holds. An owner that holds nothing takes no memory, so the table is as small as the
    totals of what is shared."""

    def __init__(self, limits_: Mapping[Share, int] = DEFAULT_LIMITS) -> None:
        self._limits = {**DEFAULT_LIMITS, **limits_}
        self._held: dict[tuple[Share, str], int] = {}

    def take(self, owner: str, share: Share, count: int = 1) -> None:
        """Count so many more; raises ShareExceeded, and counts nothing, if they are too many."""
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
        """Whether one owner may hold so many, whoever counts them."""
        limit = self._limits[share]
        if count > limit:
            raise ShareExceeded(
                f"one client may have {limit} {share.value} at once",
                headers=RETRY_AFTER,
                share=share.name.lower(),
                limit=limit,
            )

    @contextmanager
    def hold(self, owner: str, share: Share, count: int = 1) -> Iterator[None]:
        """Take for the time of a block."""
        self.take(owner, share, count)
        try:
            yield
        finally:
            self.release(owner, share, count)
