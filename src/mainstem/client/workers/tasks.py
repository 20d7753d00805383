"""Waits for tasks and events of a worker, and ends them."""

import asyncio
import logging
from typing import Any

from mainstem import limits

logger = logging.getLogger("mainstem.client")


async def wait_for_any(wait_s: float, *events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*waits)


def stop_if_cancelled() -> None:
    """Raise `CancelledError` if the task was cancelled, even if a function of the application has suppressed it.

    The lease may be lost by then, so the function's result no longer counts: another worker gets the data.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended. Their errors are for those who ask for their results."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    ended, stuck = await asyncio.wait(tasks, timeout=limits.WORKER_CANCEL_S)
    for task in ended:
        if not task.cancelled():
            task.exception()
    if stuck:
        logger.error("%d functions of a worker ignore their cancellation and still run", len(stuck))
