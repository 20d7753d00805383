"""An embedded log in memory for each test, runs on it, and looks at them."""

import functools
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from mainstem.ai import Run, Runs
from mainstem.client import NotFound
from mainstem.server import create_app
from tests.support.waits import eventually_async

ABORT = {"type": "abort", "reason": "enough"}


def embedded(test: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a test an open log as `log`, and `Runs` that are open on it as `runs`, as far as it asks for them."""
    signature = inspect.signature(test)
    wanted = signature.parameters

    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        log = create_app(store="memory")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(log.lifespan())
            if "log" in wanted:
                fixtures["log"] = log
            if "runs" in wanted:
                fixtures["runs"] = await stack.enter_async_context(Runs(log))
            await test(**fixtures)

    others = [parameter for name, parameter in wanted.items() if name not in ("log", "runs")]
    run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return run


async def read(runs: Runs, stream: str) -> list[Any]:
    return await runs.streams.read_json(stream)


async def find(runs: Runs, id: str) -> Run:
    run = await runs.find(id)
    assert run is not None
    return run


async def wait_for(runs: Runs, stream: str, messages: list[Any]) -> None:
    """Wait until a stream has exactly these messages."""

    async def look() -> bool:
        try:
            return await read(runs, stream) == messages
        except NotFound:  # another process may be about to create it
            return False

    await eventually_async(look)
