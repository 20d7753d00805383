"""Work that can take long, off the event loop: in one thread, so that at most one competes with the loop.

A thread only helps if it gives up the interpreter lock in time: what runs here must be Python, or many short calls.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "mainstem-long-work")


async def run_long(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`. Callers take turns, in the order in which they came."""
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **kwargs))


async def run_sized(size: int, inline_max: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of work that takes the longer the larger its input is: at once up to `inline_max`, else as above."""
    if size <= inline_max:
        return work(*args, **kwargs)
    return await run_long(work, *args, **kwargs)
