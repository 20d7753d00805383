"""Scenarios and their measurements."""

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
    """How long a load runs, and the share of the data that fills use."""

    seconds: float
    warmup_s: float
    fill: float = 1.0


@dataclass(frozen=True)
class Scenario:
    """A scenario. With `ours_only` it runs on Mainstem only; with `big` it takes minutes and runs on request only."""

    name: str
    run: Callable[[Server, Pace], list[Measurement]]
    ours_only: bool = False
    big: bool = False
