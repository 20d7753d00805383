"""What a scenario is and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bench.load_jobs import Figures
from bench.peers import Server

Better = Literal["more", "less"]


@dataclass(frozen=True)
class Measurement:
    name: str
    title: str
    value: float
    unit: str
    better: Better = "more"
    details: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Pace:
    """How long a time-bounded load runs, and which share of the big fills is made."""

    seconds: float
    warmup_s: float
    fill: float = 1.0


@dataclass(frozen=True)
class Scenario:
    """`ours_only` scenarios are about our own limits; `big` ones take minutes and run only when asked for."""

    name: str
    run: Callable[[Server, Pace], list[Measurement]]
    ours_only: bool = False
    big: bool = False
