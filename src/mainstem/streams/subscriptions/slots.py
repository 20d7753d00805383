"""Slots: so many at once for each name. Whoever comes later waits in turn, and only for others of the same name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A name that nobody uses takes no memory."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[None]:
        turns = self._turns.setdefault(name, asyncio.Semaphore(self._at_once))
        self._users[name] = self._users.get(name, 0) + 1
        try:
            async with turns:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._turns[name]
