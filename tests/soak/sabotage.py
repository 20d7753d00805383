"""Faults of the server itself that only time reveals. They are called in the server's process."""

import asyncio
from typing import Any

from mainstem.server.edge.asgi import AsgiHandler
from mainstem.streams.rules import lifecycle


def keep_everything() -> None:
    """Keep streams that have expired, and tasks for every request.

    Requests that create streams keep none: a soak begins with a hundred of them, and compares its end with the state
    after these.
    """
    lifecycle._has_expired = lambda state, now_us, touched_us: False
    run = AsgiHandler.run
    kept: list[asyncio.Task[Any]] = []

    async def run_and_keep(self: AsgiHandler) -> None:
        if self.cycle.head.method != b"PUT":
            kept.extend(asyncio.create_task(asyncio.sleep(3600)) for _ in range(20))
        await run(self)

    AsgiHandler.run = run_and_keep  # type: ignore[method-assign]
