"""Coroutines that seldom have to wait: they run at once, and become a task only when they wait."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def run_eagerly(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run a coroutine until it has to wait. Return the task that does the rest, or None if nothing is left to do.

    An error before the first wait reaches the caller. Until then there may be no current task, so the coroutine must
    not begin with `asyncio.timeout`.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(BegunCoroutine(work, awaited))


class BegunCoroutine(Coroutine[Any, Any, None]):
    """A coroutine that waits already: its first step returns what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited: Any = awaited
        self._begins = True

    def send(self, value: Any) -> Any:
        if self._begins:
            self._begins = False
            awaited, self._awaited = self._awaited, None
            return awaited
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("only a task runs it")
