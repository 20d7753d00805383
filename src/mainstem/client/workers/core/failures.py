"""Streams whose batch failed: how often, and when to try again."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mainstem import limits
from mainstem.client.core.retries import Retries
from mainstem.client.workers.core.wakes import WakeStream


@dataclass(frozen=True)
class Failing:
    offset: str
    failures: int
    due_s: float


class Failures:
    """The streams of one worker process that wait for another attempt.

    A stream whose data another worker has acknowledged since is no longer failing. Beyond
    WORKER_FAILING_STREAMS_MAX streams, the oldest failure is forgotten, so its stream is tried again early.
    """

    def __init__(self, delays: Retries, chance: Callable[[], float]) -> None:
        self._delays = delays
        self._chance = chance
        self._failing: OrderedDict[str, Failing] = OrderedDict()
        self.recorded = 0
        """How many failures have been recorded in all."""

    def record(self, path: str, offset: str, now_s: float) -> int:
        """Record that the data from an offset failed. Return how often it has failed."""
        self.recorded += 1
        failures = self.count(path, offset) + 1
        due_s = now_s + self._delays.delay(failures, self._chance)
        self._failing[path] = Failing(offset, failures, due_s)
        self._failing.move_to_end(path)
        if len(self._failing) > limits.WORKER_FAILING_STREAMS_MAX:
            self._failing.popitem(last=False)
        return failures

    def count(self, path: str, offset: str) -> int:
        failing = self._failing.get(path)
        return failing.failures if failing is not None and failing.offset == offset else 0

    def forget(self, path: str) -> None:
        self._failing.pop(path, None)

    def select_due(self, streams: Iterable[WakeStream], now_s: float) -> list[WakeStream]:
        """Return the streams that may be tried now: all that have not failed at their offset, or not lately."""
        due = []
        for stream in streams:
            failing = self._failing.get(stream.path)
            if failing is not None and failing.offset < stream.acked_offset:
                self.forget(stream.path)  # another worker was luckier
                failing = None
            if failing is None or failing.due_s <= now_s:
                due.append(stream)
        return due

    def wait_s(self, streams: Iterable[WakeStream], now_s: float) -> float:
        """Return how long until the first of these streams is due; 0 if one of them is due."""
        waits = (self._failing[stream.path].due_s - now_s for stream in streams if stream.path in self._failing)
        return max(min(waits, default=0.0), 0.0)
