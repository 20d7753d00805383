"""Slows down the readers of the log while writers keep the server busy.

A page is large: encoding it, and sending it through the server, takes processor time that writers notice. They come
first, and readers get a part of the time.
"""

import time
from collections.abc import Callable

from mainstem import limits


class Pacing:
    """Decides when the next page may begin. One for all readers."""

    def __init__(self, head: int, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._last_s, self._last_head = clock_s(), head
        self._busy = False
        self._free_s = 0.0

    def measure_wait(self) -> float:
        """Return how many seconds the next page has to wait."""
        return max(0.0, self._free_s - self._clock_s())

    def note_page(self, took_s: float, head: int) -> None:
        """Take into account a page that has ended, and how far the log has grown lately."""
        now_s = self._clock_s()
        elapsed_s = now_s - self._last_s
        if elapsed_s >= limits.LOG_PACING_WINDOW_S:  # in less time, a single large commit would look like many
            self._busy = head - self._last_head > limits.LOG_PACING_RECORDS_S * elapsed_s
            self._last_s, self._last_head = now_s, head
        if self._busy:
            self._free_s = now_s + min(limits.LOG_PACING_PAUSES * took_s, limits.LOG_PACING_S_MAX)
