"""The thread in which a client's store and views run, so that they never block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class StoreThread:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "mainstem-offline-client")

    async def run(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job and return its result. A job that has started runs to its end, even if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, job, *args)

    def stop(self) -> None:
        self._pool.shutdown()
