"""The memory of all connections together: incomplete bodies, fragmented messages, and replies that nobody reads."""

from typing import Protocol

from mainstem import limits


class Holder(Protocol):
    """A connection that holds memory."""

    @property
    def stalls(self) -> bool:
        """Whether the held bytes wait for the client."""

    def shed(self) -> None:
        """Close the connection and free its memory: there is not enough for all."""


class MemoryBudget:
    """Counts the bytes that each connection holds.

    Above the limit, it sheds the connection that has held bytes for the longest time among those that wait for their
    client.
    """

    def __init__(self) -> None:
        self.bytes_max = limits.CONNECTION_BYTES_TOTAL_MAX
        self.total = 0
        self.shed_count = 0
        self._held: dict[Holder, int] = {}  # in the order in which they began to hold bytes

    def hold(self, holder: Holder, size: int) -> None:
        """Record how many bytes a connection holds now; 0 if it holds none."""
        before = self._held.pop(holder, 0) if size == 0 else self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        self.total += size - before
        if self.total > self.bytes_max and size > before:
            self._shed_until_within_limit(holder)

    def _shed_until_within_limit(self, newest: Holder) -> None:
        while self.total > self.bytes_max:
            victim = next((holder for holder in self._held if holder.stalls), newest)
            self.total -= self._held.pop(victim, 0)
            self.shed_count += 1
            victim.shed()
            if victim is newest:
                return
