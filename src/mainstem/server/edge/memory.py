"""What all connections together may hold: bodies that are not complete, messages in fragments, pages nobody reads."""

from typing import Protocol

from mainstem import limits


class Holder(Protocol):
    """A connection, as far as its memory is concerned."""

    @property
    def stalls(self) -> bool:
        """Whether it is the client that the held bytes wait for."""

    def shed(self) -> None:
        """Give everything up: there is not enough memory for all."""


class MemoryBudget:
    """Counts what each connection holds. When it is too much, whoever has held something for the longest time, and
    whose client is the one to be waited for, is shed."""

    def __init__(self) -> None:
        self.bytes_max = limits.CONNECTION_BYTES_TOTAL_MAX
        self.total = 0
        self.shed_count = 0
        self._held: dict[Holder, int] = {}  # in the order in which they began to hold something

    def hold(self, holder: Holder, size: int) -> None:
        """Note what a connection holds now; 0 when it holds nothing any more."""
        before = self._held.pop(holder, 0) if size == 0 else self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        self.total += size - before
        if self.total > self.bytes_max and size > before:
            self._make_room(holder)

    def _make_room(self, newest: Holder) -> None:
        while self.total > self.bytes_max:
            victim = next((holder for holder in self._held if holder.stalls), newest)
            self.total -= self._held.pop(victim, 0)
            self.shed_count += 1
            victim.shed()
            if victim is newest:
                return
