"""The writer thread: it runs jobs one after the other, and their outcomes return to the event loop.

A pool would do the same through a chain of futures. This takes only two thread switches, which matters: with a single
client they are a third of the time of an append.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

logger = logging.getLogger(__name__)
T = TypeVar("T")
Job = tuple[Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any] | None", asyncio.AbstractEventLoop | None]


class WriterThread:
    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread once the waiting jobs are done."""
        self._jobs.put(None)
        self._thread.join()

    def run(self, job: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._jobs.put((job, args, outcome, loop))
        return outcome

    def post(self, job: Callable[..., None], *args: Any) -> None:
        """Run a job that nobody waits for."""
        self._jobs.put((job, args, None, None))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, args, outcome, loop = item
            if outcome is None or loop is None:
                try:
                    job(*args)
                except Exception:  # the thread must go on, or every later save would wait for ever
                    logger.exception("a job of the writer thread failed")
                continue
            try:
                value = job(*args)
            except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
                loop.call_soon_threadsafe(_fail, outcome, error)
            else:
                loop.call_soon_threadsafe(_resolve, outcome, value)


def _resolve(outcome: "asyncio.Future[Any]", value: Any) -> None:
    if not outcome.done():
        outcome.set_result(value)


def _fail(outcome: "asyncio.Future[Any]", error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)
