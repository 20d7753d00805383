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
    """How often the data from this offset has failed, whether or not the function was called with it."""
    calls: int
    """How often a call of the function has failed."""
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

    def record(self, path: str, offset: str, now_s: float, *, called: bool = True) -> Failing:
        """Record that the data from an offset failed, in a call of the function or before it."""
        self.recorded += 1
        last = self._find(path, offset)
        failures = last.failures + 1
        due_s = now_s + self._delays.delay(failures, self._chance)
        failing = Failing(offset, failures, last.calls + called, due_s)
        self._failing[path] = failing
        self._failing.move_to_end(path)
        if len(self._failing) > limits.WORKER_FAILING_STREAMS_MAX:
            self._failing.popitem(last=False)
        return failing

    def count_calls(self, path: str, offset: str) -> int:
        """Return how many calls with the data from an offset have failed."""
        return self._find(path, offset).calls

    def _find(self, path: str, offset: str) -> Failing:
        failing = self._failing.get(path)
        return failing if failing is not None and failing.offset == offset else Failing(offset, 0, 0, 0.0)

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
