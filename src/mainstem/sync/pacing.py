"""Pacing: whoever sends too fast is read more slowly. Nothing is refused for it, since many clients never retry.

While a connection waits here its socket is not read, so what it sends piles up with the sender, not with the server.
"""

import asyncio
from collections import deque

from mainstem import limits


class Pace:
    """The message rate of one connection, averaged over a second."""

    def __init__(self, now_s: float) -> None:
        self._allowance = float(limits.SYNC_MESSAGES_S_MAX)
        self._counted_s = now_s

    def take(self, now_s: float) -> float:
        """Count one message. Returns 0, or the seconds until there is room: then nothing was counted."""
        most = float(limits.SYNC_MESSAGES_S_MAX)
        self._allowance = min(most, self._allowance + max(0.0, now_s - self._counted_s) * most)
        self._counted_s = now_s
        if self._allowance >= 1:
            self._allowance -= 1
            return 0.0
        # A hundredth of a second at least: waiting for every single message would cost more than the messages.
        return max((1 - self._allowance) / most, 0.01)


class Drafts:
    """Drafts that wait for their commit, counted per client over all its connections, and who waits for room."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def take(self, client_id: str, number: int) -> None:
        """Return when these drafts may go to the log. Connections of one client take turns."""
        if client_id not in self._waiting and self._fits(client_id, number):
            self._add(client_id, number)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (number, turn)
        self._waiting.setdefault(client_id, deque()).append(place)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(client_id, place)
            else:
                self.give_back(client_id, number)
            raise

    def give_back(self, client_id: str, number: int) -> None:
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
            number, turn = waiting.popleft()
            if not turn.cancelled():
                self._add(client_id, number)
                turn.set_result(None)
        if not waiting:
            self._waiting.pop(client_id, None)

    def _leave(self, client_id: str, place: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting.get(client_id)
        if waiting is not None and place in waiting:
            waiting.remove(place)
            self._admit(client_id)

    def _fits(self, client_id: str, number: int) -> bool:
        count = self._count.get(client_id, 0)
        return not count or count + number <= limits.SYNC_DRAFTS_MAX

    def _add(self, client_id: str, number: int) -> None:
        self._count[client_id] = self._count.get(client_id, 0) + number
