"""Sources of runs that tests control."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any


class Source:
    """Yields what a test gives it, and notes how it ended."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[Any] = asyncio.Queue()
        self.started = False
        self.closed = asyncio.Event()

    def give(self, *pieces: Any) -> None:
        for piece in pieces:
            self._pieces.put_nowait(piece)

    def finish(self) -> None:
        self._pieces.put_nowait(StopAsyncIteration)

    async def read(self) -> AsyncGenerator[Any, None]:
        self.started = True
        try:
            while (piece := await self._pieces.get()) is not StopAsyncIteration:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed.set()


async def count(pieces: int) -> AsyncGenerator[str, None]:
    for number in range(pieces):
        yield f"{number} "
        await asyncio.sleep(0)
