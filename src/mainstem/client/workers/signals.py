"""SIGTERM stops all workers of a process, unless the application handles it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_stops: list[Callable[[], None]] = []


@contextmanager
def stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when the process receives SIGTERM. An application's own handler stays in place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    ours = bool(_stops) or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return
    if not _stops:
        try:
            loop.add_signal_handler(signal.SIGTERM, _stop_all)
        except NotImplementedError:  # Windows
            yield
            return
    _stops.append(stop)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            loop.remove_signal_handler(signal.SIGTERM)


def _stop_all() -> None:
    for stop in list(_stops):
        stop()
