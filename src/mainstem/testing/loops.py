"""Run asynchronous code from a synchronous test, on the same kind of event loop as the server."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def new_runner() -> asyncio.Runner:
    """Return a runner for several runs on one event loop: tasks started in one run continue in the next."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def run(main: Coroutine[Any, Any, T]) -> T:
    with new_runner() as runner:
        return runner.run(main)
