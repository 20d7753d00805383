"""Turns: how many appends the runs of a process send at the same time, and which of them waits for the longest time."""

import asyncio
from collections import deque


class Turns:
    """A semaphore whose waiting can be given up at any moment: the waiter resolves its own future to False."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[bool]] = deque()

    def take(self) -> bool:
        """Take a turn if one is free."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def wait(self, turn: "asyncio.Future[bool]") -> None:
        """Resolve the future to True once it has its turn, unless it is done by then."""
        self._waiting.append(turn)

    def give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1
