"""A semaphore per key: callers wait only for other callers with the same key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedSemaphore:
    """Admits up to `at_once` callers per key; the others wait their turn. An unused key takes no memory."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def acquire(self, key: str) -> AsyncIterator[None]:
        semaphore = self._semaphores.setdefault(key, asyncio.Semaphore(self._at_once))
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with semaphore:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._semaphores[key]
