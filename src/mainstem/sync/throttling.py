"""Throttling: whoever sends too fast is read more slowly. Nothing is refused for it, since many clients never retry.

While a connection waits here its socket is not read, so what it sends piles up with the sender, not with the server.
"""

import asyncio
from collections import deque

from mainstem import limits


class TokenBucket:
    """The message rate of one connection, averaged over a second."""

    def __init__(self, now_s: float) -> None:
        self._tokens = float(limits.SYNC_MESSAGES_S_MAX)
        self._updated_s = now_s

    def take(self, now_s: float) -> float:
        """Count one message. Returns 0, or the seconds until there is room: then nothing was counted."""
        most = float(limits.SYNC_MESSAGES_S_MAX)
        self._tokens = min(most, self._tokens + max(0.0, now_s - self._updated_s) * most)
        self._updated_s = now_s
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        # A hundredth of a second at least: waiting for every single message would cost more than the messages.
        return max((1 - self._tokens) / most, 0.01)


class DraftQuota:
    """Counts the drafts that wait for their commit, per client across all its connections. Excess drafts wait here."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def acquire(self, client_id: str, number: int) -> None:
        """Return when these drafts may go to the log. Connections of one client are served in the order they came."""
        if client_id not in self._waiting and self._fits(client_id, number):
            self._add(client_id, number)
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (number, admitted)
        self._waiting.setdefault(client_id, deque()).append(waiter)
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._leave(client_id, waiter)
            else:
                self.release(client_id, number)
            raise

    def release(self, client_id: str, number: int) -> None:
        """These drafts have their outcome."""
        left = self._count.get(client_id, 0) - number
        if left > 0:
            self._count[client_id] = left
        else:
            self._count.pop(client_id, None)
        self._admit(client_id)

    def _admit(self, client_id: str) -> None:
        waiting = self._waiting.get(client_id)
        while waiting and self._fits(client_id, waiting[0][0]):
            number, admitted = waiting.popleft()
            if not admitted.cancelled():
                self._add(client_id, number)
                admitted.set_result(None)
        if not waiting:
            self._waiting.pop(client_id, None)

    def _leave(self, client_id: str, waiter: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting.get(client_id)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            self._admit(client_id)

    def _fits(self, client_id: str, number: int) -> bool:
        count = self._count.get(client_id, 0)
        return not count or count + number <= limits.SYNC_DRAFTS_MAX

    def _add(self, client_id: str, number: int) -> None:
        self._count[client_id] = self._count.get(client_id, 0) + number
