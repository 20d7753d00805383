"""Reading ahead: a thread fetches the next page of the log while a task processes the current one."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The end of the items, or the error with which they end."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the same items, while a thread fetches the next one. At most two items wait besides the current one.

    An error of `items` is raised where its item would have been. If the caller stops early, the thread ends after the
    item that it is fetching; nobody waits for it.
    """
    fetched: queue.Queue[T | _End] = queue.Queue(1)
    abandoned = threading.Event()

    def fetch() -> None:
        end = _End()
        try:
            for item in items:
                fetched.put(item)
                if abandoned.is_set():
                    break
        except Exception as error:  # noqa: BLE001 - the thread of the task raises it
            end = _End(error)
        finally:
            if isinstance(items, Generator):
                items.close()
            if not abandoned.is_set():
                fetched.put(end)

    threading.Thread(target=fetch, name="mainstem-read-ahead", daemon=True).start()
    try:
        while not isinstance(item := fetched.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        abandoned.set()
        with contextlib.suppress(queue.Empty):  # the thread may be waiting for room
            fetched.get_nowait()
