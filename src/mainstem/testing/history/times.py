"""What was known when: the maximum of a value that only grows, by the times at which clients knew it."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Highest(Generic[T]):
    """Answers which value was the highest that was known before a time, in logarithmic time."""

    def __init__(self, known: Iterable[tuple[float, Any, T]]) -> None:
        """`known` holds times, comparable values, and what proves them."""
        self._times: list[float] = []
        self._values: list[tuple[Any, T]] = []
        for time, value, proof in sorted(known, key=lambda item: item[0]):
            if not self._values or value > self._values[-1][0]:
                self._times.append(time)
                self._values.append((value, proof))

    def before(self, time: float) -> tuple[Any, T] | None:
        at = bisect_left(self._times, time)
        return self._values[at - 1] if at else None
