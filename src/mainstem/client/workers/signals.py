"""SIGTERM stops all workers of a process, unless the application handles it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_stops: list[Callable[[], None]] = []
_handlers: list["_Handler"] = []


@contextmanager
def stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when the process receives SIGTERM. An application's own handler stays in place, even if the
    application has installed it since."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _stops:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        try:
            _handlers.append(_Handler(asyncio.get_running_loop()))
        except NotImplementedError:  # Windows
            yield
            return
    _stops.append(stop)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            _handlers.pop().remove()


class _Handler:
    """The handler of SIGTERM while workers run.

    It wraps the handler of the event loop, which is the same for all callbacks of the loop. So `remove` can see whether
    the application has installed another handler since, in Python or in the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_signal_handler(signal.SIGTERM, self._stop_all)
        self._of_loop = signal.getsignal(signal.SIGTERM)
        self._own = self._handle
        signal.signal(signal.SIGTERM, self._own)

    def remove(self) -> None:
        current = signal.getsignal(signal.SIGTERM)
        if current is None or current == self._of_loop:
            return  # the application has given the loop another callback
        self._loop.remove_signal_handler(signal.SIGTERM)
        if current is not self._own:
            signal.signal(signal.SIGTERM, current)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if callable(self._of_loop):
            self._of_loop(number, frame)

    def _stop_all(self) -> None:
        if signal.getsignal(signal.SIGTERM) is self._own:
            for stop in list(_stops):
                stop()
