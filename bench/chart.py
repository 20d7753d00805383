"""An SVG bar chart of the ratios to the peer, drawn without a library."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from bench.peers import ELECTRIC, OURS
from bench.report import Report, format_ratio
from bench.targets import TARGETS, TimesElectric, format_number

WIDTH = 1080
LABELS = 330
VALUES = 250
ROW = 30
BAR = 16
LABEL_WIDTH = 44
TOP = 136
BOTTOM = 52
TICKS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

BETTER, WORSE, TARGET = "#1f7a6d", "#c2571a", "#1b1f24"
INK, FAINT, GRID = "#1b1f24", "#667079", "#e3e7ea"
STYLE = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\""


class Scale:
    """A logarithmic axis for ratios: twice as good and half as good are equally far from 1."""

    def __init__(self, ratios: Iterable[float]) -> None:
        found = [1.0, *ratios]
        self.low = max(tick for tick in TICKS if tick <= max(min(found), TICKS[0]))
        self.high = min(tick for tick in TICKS if tick >= min(max(max(found), 2.0), TICKS[-1]))
        # Leave space for the label of the longest bar.
        self.left, self.right = LABELS, WIDTH - VALUES - 60

    def place(self, ratio: float) -> float:
        bounded = min(max(ratio, self.low), self.high)
        share = math.log(bounded / self.low) / math.log(self.high / self.low)
        return self.left + share * (self.right - self.left)

    def list_ticks(self) -> list[float]:
        return [tick for tick in TICKS if self.low <= tick <= self.high]


@dataclass(frozen=True)
class Bar:
    title: str
    ratio: float
    values: str
    goal: float | None = None


def draw_chart(report: Report) -> str | None:
    """Return the chart as SVG; None if there is no peer to compare with."""
    bars = list_bars(report)
    if not bars:
        return None
    height = TOP + ROW * len(bars) + BOTTOM
    scale = Scale([*(bar.ratio for bar in bars), *(bar.goal or 1.0 for bar in bars)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" {STYLE}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *draw_title(report),
        *draw_grid(scale, TOP, len(bars)),
    ]
    for index, bar in enumerate(bars):
        parts += draw_bar(bar, scale, TOP + ROW * index)
    parts += [*draw_legend(height), "</svg>"]
    return "\n".join(parts) + "\n"


def list_bars(report: Report) -> list[Bar]:
    bars = []
    for row in report.results.rows.values():
        ratio = report.find_ratio(row)
        if ratio is not None:
            mine, theirs = row.find_median(OURS) or 0, row.find_median(report.other or "") or 0
            values = f"{format_number(mine)} / {format_number(theirs)} {row.unit}"
            bars.append(Bar(row.title, ratio, values, find_goal(row.name) if report.other == ELECTRIC else None))
    return bars


def find_goal(name: str) -> float | None:
    target = TARGETS.get(name)
    return target.times if isinstance(target, TimesElectric) else None


def draw_title(report: Report) -> list[str]:
    machine = report.machine
    versions = ", ".join(peer.version for peer in report.peers)
    setting = f"durable stores, medians of {report.pace.repeat}, {machine.cores} cores, {machine.cpu}, {machine.date}"
    return [
        write(24, 34, f"{OURS} beside {report.other}", size=20, weight=600),
        write(24, 56, versions, size=12, fill=FAINT),
        write(24, 74, setting, size=12, fill=FAINT),
        write(
            24, 104, f"times better than {report.other}; the values are {OURS} / {report.other}", size=14, weight=600
        ),
    ]


def draw_grid(scale: Scale, top: int, rows: int) -> list[str]:
    bottom = top + ROW * rows
    parts = []
    for tick in scale.list_ticks():
        x = scale.place(tick)
        colour, width = (INK, 1.2) if tick == 1 else (GRID, 1)
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        )
        parts.append(write(x, top - 12, f"{tick:g}x", size=11, fill=FAINT, anchor="middle"))
    return parts


def draw_bar(bar: Bar, scale: Scale, top: float) -> list[str]:
    middle = top + ROW / 2
    text_y = middle + 4
    one, end = scale.place(1), scale.place(bar.ratio)
    left, width = min(one, end), max(abs(end - one), 1.5)
    goal = scale.place(bar.goal) if bar.goal is not None else None
    label = max(one, end) + 7
    if goal is not None and label - 7 < goal < label + LABEL_WIDTH:
        label = goal + 7
    parts = [
        write(LABELS - 16, text_y, bar.title, size=12.5, anchor="end"),
        f'<rect x="{left:.1f}" y="{middle - BAR / 2:.1f}" width="{width:.1f}" height="{BAR}" rx="2" '
        f'fill="{BETTER if bar.ratio >= 1 else WORSE}"/>',
        write(label, text_y, format_ratio(bar.ratio), size=12, weight=600),
        write(WIDTH - 24, text_y, bar.values, size=11.5, fill=FAINT, anchor="end"),
    ]
    if goal is not None:
        parts.append(
            f'<line x1="{goal:.1f}" y1="{middle - 12:.1f}" x2="{goal:.1f}" y2="{middle + 12:.1f}" '
            f'stroke="{TARGET}" stroke-width="2.5"/>'
        )
    return parts


def draw_legend(height: int) -> list[str]:
    y = height - 20
    return [
        f'<rect x="{LABELS}" y="{y - 10}" width="12" height="12" rx="2" fill="{BETTER}"/>',
        write(LABELS + 18, y, "better", size=11.5, fill=FAINT),
        f'<rect x="{LABELS + 76}" y="{y - 10}" width="12" height="12" rx="2" fill="{WORSE}"/>',
        write(LABELS + 94, y, "worse", size=11.5, fill=FAINT),
        f'<line x1="{LABELS + 156}" y1="{y - 12}" x2="{LABELS + 156}" y2="{y + 4}" stroke="{TARGET}" '
        'stroke-width="2.5"/>',
        write(LABELS + 164, y, "target ratio", size=11.5, fill=FAINT),
    ]


def write(
    x: float, y: float, text: str, *, size: float, fill: str = INK, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
