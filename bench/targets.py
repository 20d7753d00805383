"""The targets of the project, and how each is judged.

A machine's speed changes from hour to hour, so a target for a speed is a ratio to something that the same run measured:
Electric's server, or another measurement. Memory and disk space hardly vary, and their targets are fixed. The pipeline
also has goals for a machine with two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.formats import format_number
from bench.growth_scenarios import FIGURES, SIZES
from bench.peers import ELECTRIC, OURS
from bench.results import Results, Row

Mark = Literal["pass", "MISS", "-"]


@dataclass(frozen=True)
class TimesElectric:
    """At least `times` as good as Electric's server in the same run."""

    times: float

    def describe(self) -> str:
        return f">= {self.times:g}x {ELECTRIC}"

    def is_reached(self, row: Row, results: Results) -> bool | None:
        ratio = row.find_ratio(OURS, ELECTRIC)
        return None if ratio is None else ratio >= self.times


@dataclass(frozen=True)
class Near:
    """At most a share worse than another measurement of Mainstem in the same run."""

    other: str
    share: float

    def describe(self) -> str:
        return f"within {self.share:.0%} of {self.other}"

    def is_reached(self, row: Row, results: Results) -> bool | None:
        value, first = row.find_median(OURS), results.find_median(self.other, OURS)
        if value is None or first is None:
            return None
        return value >= first * (1 - self.share) if row.better == "more" else value <= first * (1 + self.share)


@dataclass(frozen=True)
class AtLeast:
    """A lower bound of a measurement: of a ratio, or of the speed of the pipeline on two cores."""

    value: float

    def describe(self) -> str:
        return f">= {format_number(self.value)}"

    def is_reached(self, row: Row, results: Results) -> bool | None:
        value = row.find_median(OURS)
        return None if value is None else value >= self.value


@dataclass(frozen=True)
class Below:
    """An upper bound of memory or disk space, of a ratio, or of the start of Spark on two cores."""

    value: float

    def describe(self) -> str:
        return f"< {format_number(self.value)}"

    def is_reached(self, row: Row, results: Results) -> bool | None:
        value = row.find_median(OURS)
        return None if value is None else value < self.value


Target = TimesElectric | Near | AtLeast | Below

TARGETS: dict[str, Target] = {
    "append-c1": TimesElectric(0.8),
    "append-c64": TimesElectric(0.65),
    "append-c64-s64": TimesElectric(0.65),
    "append-c64-s1000": TimesElectric(0.7),
    "append-batches": TimesElectric(0.8),
    "append-1mb": TimesElectric(1),
    "producers": TimesElectric(0.6),
    "catch-up-json": TimesElectric(1),
    "catch-up-bytes": TimesElectric(1),
    "last-message": TimesElectric(0.6),
    "sse-200-p50": TimesElectric(0.8),
    "sse-200-p99": TimesElectric(0.7),
    "sse-1000-p50": TimesElectric(0.8),
    "sse-1000-p99": TimesElectric(0.7),
    "long-poll-200-p50": TimesElectric(0.75),
    "start-many": Near("start-none", 0.50),
    "subscriptions-10k": Near("subscriptions-none", 0.20),
    "metrics-kept": AtLeast(97),
    **{
        f"growth-{figure}-{size}": Near(f"growth-{figure}-0", 0.15)
        for figure in FIGURES
        for size in SIZES
        if SIZES[size]
    },
    "growth-sse-append-0": Near("growth-append-0", 0.15),
    "sync-50x4-times": AtLeast(3.7),
    "spark-times": AtLeast(3),
    "spark-read": AtLeast(1_200_000),
    "spark-read-parquet": Below(2.5),
    "spark-columns-parquet": Below(2.5),
    "spark-first": Below(8),
    "spark-appends-kept": AtLeast(85),
    "audit": AtLeast(400_000),
    "browser-view": Below(1_000),
    "ai-first": Below(5),
    "ai-stop": Below(100),
    "ai-remote-stop": Below(100),
    "ai-crowd-growth": Below(1.2),
    "archive-rewrite": Below(2),
    "archive-growth": AtLeast(0.8),
    "rss-sse": Below(6),
    "rss-reading": Below(64),
    "rss-tailing": Below(64),
    "rss-many": Below(250),
    "fork-space": Below(1),
    "archive-memory": Below(1_500),
}


def describe_target(name: str) -> str:
    return TARGETS[name].describe() if name in TARGETS else "-"


def judge_measurement(name: str, results: Results) -> Mark:
    """Return "-" if there is no target, or if the run did not measure what the target refers to."""
    target, row = TARGETS.get(name), results.rows.get(name)
    reached = target.is_reached(row, results) if target and row else None
    if reached is None:
        return "-"
    return "pass" if reached else "MISS"
