"""Turns: calls with the same name go one after the other, in the order in which they came."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class _Line:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # it serves its waiters in order
    length: int = 0


class Turns:
    """As many lines as there are names with somebody in them."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def take(self, name: str) -> AsyncGenerator[None, None]:
        line = self._lines.setdefault(name, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[name]
