"""Counters, gauges and histograms. They have no locks: change each of them from one thread only.

A family is a metric with a name; it has one instrument per combination of label values. Find an instrument once and
keep it where it is used often: changing it then costs about 50 ns, a tenth of what a lock would make of it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeVar

Labels = tuple[str, ...]
OTHER: Final = "other"
"""The value of each label once a family has as many instruments as it may have."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Counter:
    """A number that only grows. `value` may be changed directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount


class Gauge:
    """A number that goes up and down. `value` may be changed directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Histogram:
    """How many values were observed up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Per bucket, not cumulative; the last is for values above all bounds."""
        self.sum: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)
Reading = Iterable[tuple[Labels, float]]
"""Values by label values, read at the moment of a scrape."""


class Family(Generic[Instrument]):
    """A metric: its name, what it means, and its instruments by label values."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        meaning: str,
        labels: Sequence[str],
        make: Callable[[], Instrument],
        children_max: int,
    ) -> None:
        self.name = name
        self.kind = kind
        self.meaning = meaning
        self.labels = tuple(labels)
        self.children: dict[Labels, Instrument] = {}
        self.read: Callable[[], Reading] | None = None
        """Called at each scrape, in place of the instruments."""
        self._make: Callable[[], Instrument] = make
        self._children_max = children_max

    def of(self, *values: str) -> Instrument:
        """Return the instrument with these label values.

        Above the limit of instruments all further ones share one, so that no mistake can fill the memory.
        """
        child = self.children.get(values)
        if child is None:
            assert len(values) == len(self.labels), f"{self.name} has the labels {self.labels}"
            if len(self.children) >= self._children_max:
                values = (OTHER,) * len(self.labels)
            child = self.children.get(values) or self.children.setdefault(values, self._make())
        return child

    def read_with(self, read: Callable[[], float]) -> None:
        """Read the one value of a family without labels at each scrape."""
        self.read = lambda: [((), read())]
