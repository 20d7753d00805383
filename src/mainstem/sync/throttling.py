"""Throttling: the server reads more slowly from a client that sends too fast. It refuses nothing, since many clients
never retry.

While a connection waits here, its socket is not read, so its messages queue up at the sender, not at the server.
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
        """Count one message and return 0, or return the seconds to wait before trying again, without counting it."""
        most = limits.SYNC_MESSAGES_S_MAX
        tokens = self._tokens
        if now_s > self._updated_s:
            tokens += (now_s - self._updated_s) * most
            if tokens > most:
                tokens = float(most)
        self._updated_s = now_s
        if tokens >= 1:
            self._tokens = tokens - 1
            return 0.0
        self._tokens = tokens
        # At least 10 ms: a timer for every single message would cost more than the messages do.
        return max((1 - tokens) / most, 0.01)


class DraftQuota:
    """Limits the drafts that wait for their commit, per client across all its connections. Excess drafts wait here."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    def try_acquire(self, client_id: str, number: int) -> bool:
        """Admit these drafts, if they need not wait, and return whether they were admitted."""
        if client_id in self._waiting or not self._fits(client_id, number):
            return False
        self._add(client_id, number)
        return True

    async def acquire(self, client_id: str, number: int) -> None:
        """Return when these drafts may go to the log. The connections of one client are served in order of arrival."""
        if self.try_acquire(client_id, number):
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
        """Return drafts to the quota once their outcome is known, and admit those that wait."""
        left = self._count.get(client_id, 0) - number
        if left > 0:
            self._count[client_id] = left
        else:
            self._count.pop(client_id, None)
        if client_id in self._waiting:
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
