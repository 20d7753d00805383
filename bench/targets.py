"""The targets of the project, and how each is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Mark = Literal["pass", "MISS", "-"]
# Our medians by measurement name, and how many times better than the peer each is.
Values = Mapping[str, float]
MARGIN_MAX = 1_000.0


@dataclass(frozen=True)
class AtLeast:
    value: float

    def describe(self) -> str:
        return f">= {format_number(self.value)}"

    def check(self, name: str, values: Values, ratios: Values) -> Mark:
        return mark_pass(values[name] >= self.value)

    def find_margin(self, name: str, values: Values) -> float | None:
        return values[name] / self.value


@dataclass(frozen=True)
class Below:
    value: float

    def describe(self) -> str:
        return f"< {format_number(self.value)}"

    def check(self, name: str, values: Values, ratios: Values) -> Mark:
        return mark_pass(values[name] < self.value)

    def find_margin(self, name: str, values: Values) -> float | None:
        # A difference may be zero or negative if the noise is larger.
        return self.value / values[name] if values[name] > self.value / MARGIN_MAX else MARGIN_MAX


@dataclass(frozen=True)
class TimesPeer:
    times: float

    def describe(self) -> str:
        return f">= {self.times:g}x"

    def check(self, name: str, values: Values, ratios: Values) -> Mark:
        return mark_pass(ratios[name] >= self.times) if name in ratios else "-"

    def find_margin(self, name: str, values: Values) -> float | None:
        return None


@dataclass(frozen=True)
class Near:
    """At most a share below another measurement of Mainstem."""

    other: str
    share: float

    def describe(self) -> str:
        return f"within {self.share:.0%} of {self.other}"

    def check(self, name: str, values: Values, ratios: Values) -> Mark:
        if self.other not in values:
            return "-"
        return mark_pass(values[name] >= values[self.other] * (1 - self.share))

    def find_margin(self, name: str, values: Values) -> float | None:
        return values[name] / (values[self.other] * (1 - self.share)) if self.other in values else None


Target = AtLeast | Below | TimesPeer | Near

TARGETS: dict[str, list[Target]] = {
    "append-c1": [TimesPeer(4)],
    "append-c64": [TimesPeer(20), AtLeast(18_000)],
    "append-c64-s64": [Near("append-c64", 0.25)],
    "append-c64-s1000": [Near("append-c64", 0.25)],
    "append-batches": [AtLeast(300_000)],
    "catch-up-json": [TimesPeer(4), AtLeast(400)],
    "last-message": [Below(2)],
    "sse-200-p50": [Below(10)],
    "sse-200-p99": [Below(60)],
    "rss-sse": [Below(20)],
    "rss-reading": [Below(64)],
    "rss-tailing": [Below(64)],
    "start-many": [Below(2)],
    "rss-many": [Below(250)],
    "fork-tail": [Below(10)],
    "fork-middle": [Below(10)],
    "fork-space": [Below(1)],
    "subscriptions-10k": [Near("subscriptions-none", 0.20)],
    "client-producer": [AtLeast(200_000)],
    "client-producer-sync": [AtLeast(200_000)],
    "client-follow": [Below(1)],
    "client-import": [Below(150)],
    "sync-one": [AtLeast(10_000)],
    "sync-50x4": [AtLeast(12_000)],
    "sync-shared": [AtLeast(60_000)],
    "sync-fan-out-p50": [Below(5)],
    "sync-page": [Below(5)],
    "sync-hash": [Below(15)],
    "spark-read": [AtLeast(500_000)],
    "spark-times": [AtLeast(3)],
    "spark-land": [Below(8)],
    "spark-sink": [AtLeast(100_000)],
    "spark-appends-kept": [AtLeast(70)],
    "archive": [AtLeast(300_000)],
    "audit": [AtLeast(200_000)],
    "snapshot": [Below(20)],
    "snapshot-cold": [Below(20)],
    "archive-growth": [AtLeast(0.8)],
    "archive-memory": [Below(1_500)],
    "sync-client-open": [Below(1)],
    "postgres-c64": [AtLeast(6_000)],
    "postgres-cross-p50": [Below(15)],
}


def describe_targets(name: str) -> str:
    return ", ".join(target.describe() for target in TARGETS.get(name, []))


def judge_measurement(name: str, values: Values, ratios: Values) -> Mark:
    """Return MISS if any target is missed; "-" if one cannot be judged, for example because no peer was run."""
    if name not in values:
        return "-"
    marks = [target.check(name, values, ratios) for target in TARGETS.get(name, [])]
    if "MISS" in marks:
        return "MISS"
    return "pass" if marks and "-" not in marks else "-"


def find_margin(name: str, values: Values) -> float | None:
    """Return how many times better than its hardest target a measurement is; below 1, the target is missed."""
    found = [target.find_margin(name, values) for target in TARGETS.get(name, [])] if name in values else []
    return min((margin for margin in found if margin is not None), default=None)


def mark_pass(reached: bool) -> Mark:
    return "pass" if reached else "MISS"


def format_number(value: float) -> str:
    """Format a number with about three significant digits, more than noise allows, and spaces between thousands."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 10:
        return f"{value:.1f}".removesuffix(".0")
    digits = 2 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
