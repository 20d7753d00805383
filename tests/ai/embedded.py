"""An embedded log in memory for each test, and runs on it."""

import functools
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from mainstem.ai import Runs
from mainstem.server import create_app


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
