"""Running asynchronous code from a plain test, on the event loop that the server runs on."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def new_runner() -> asyncio.Runner:
    """An event loop for several runs in a row: what was started in one goes on in the next."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def run(main: Coroutine[Any, Any, T]) -> T:
    with new_runner() as runner:
        return runner.run(main)
