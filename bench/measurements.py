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
    """How often and how long each load runs, and the share of the data that fills use.

    `growth` is the share for the growth scenario, whose data takes the longest time.
    """

    repeat: int
    seconds: float
    warmup_s: float
    fill: float = 1.0
    growth: float = 1.0


@dataclass(frozen=True)
class Scenario:
    """A scenario. With `ours_only` it runs on Mainstem only; with `big` it takes minutes and runs on request only.

    With `once` its data takes long to create, so it repeats its loads itself and returns every measurement.
    """

    name: str
    run: Callable[[Server, Pace], list[Measurement]]
    ours_only: bool = False
    big: bool = False
    once: bool = False
