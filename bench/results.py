"""The samples of all repeats, and their medians and ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from bench.load_jobs import Figures
from bench.measurements import Better, Measurement


@dataclass
class Row:
    """One measurement of every peer, with one sample per repeat."""

    name: str
    title: str
    unit: str
    better: Better
    samples: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, list[Figures]] = field(default_factory=dict)

    def find_median(self, peer: str) -> float | None:
        samples = self.samples.get(peer)
        return median(samples) if samples else None

    def find_spread(self, peer: str) -> float | None:
        """Return the range of the samples as a share of their median: a smaller difference is noise."""
        samples = self.samples.get(peer, [])
        middle = self.find_median(peer)
        if len(samples) < 2 or not middle:
            return None
        return (max(samples) - min(samples)) / abs(middle)

    def find_ratio(self, ours: str, other: str) -> float | None:
        """Return how many times better `ours` is than `other`, whatever the unit; below 1 it is worse."""
        mine, theirs = self.find_median(ours), self.find_median(other)
        if mine is None or theirs is None:
            return None
        above, below = (mine, theirs) if self.better == "more" else (theirs, mine)
        # A difference of two readings may be zero or negative, and has no ratio then.
        return above / below if above >= 0 and below > 0 else None

    def find_generator_cpu(self, peer: str) -> float:
        return max((figures.get("generator_cpu", 0.0) for figures in self.details.get(peer, [])), default=0.0)


@dataclass
class Results:
    rows: dict[str, Row] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, peer: str, found: Measurement) -> None:
        fresh = Row(found.name, found.title, found.unit, found.better)
        row = self.rows.setdefault(found.name, fresh)
        row.samples.setdefault(peer, []).append(found.value)
        row.details.setdefault(peer, []).append(found.details)

    def find_median(self, name: str, peer: str) -> float | None:
        row = self.rows.get(name)
        return row.find_median(peer) if row else None
