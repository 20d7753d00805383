"""Run long work off the event loop, in a single thread, so that at most one thread competes with the loop.

A thread only helps if it releases the interpreter lock often: the work must be Python code, or many short calls into C.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "mainstem-long-work")


async def run_long(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the thread and return its result. Calls run one at a time, in the order in which they were made."""
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **kwargs))


async def run_sized(size: int, inline_max: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` directly if its input is small (`size` up to `inline_max`), else with `run_long`."""
    if size <= inline_max:
        return work(*args, **kwargs)
    return await run_long(work, *args, **kwargs)
