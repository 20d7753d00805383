"""The one thread in which a client's store and views are touched, so that nothing of it blocks the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "mainstem-offline-client")

    async def run(self, job: Callable[..., T], *args: Any) -> T:
        """The job's outcome. A job that was begun is finished, also when its caller is cancelled meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, job, *args)

    def stop(self) -> None:
        self._pool.shutdown()
