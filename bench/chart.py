"""The ratios as an SVG bar chart, written by hand so that the benchmark needs no drawing library."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from bench.report import Report
from bench.results import Row
from bench.runner import OURS
from bench.targets import TARGETS, TimesPeer, format_number

WIDTH = 980
LABELS = 300
VALUES = 210
ROW = 30
BAR = 16
LABEL_WIDTH = 44
TOP = 116
BOTTOM = 52
TICKS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

BETTER, WORSE, TARGET = "#1f7a6d", "#c2571a", "#1b1f24"
INK, FAINT, GRID = "#1b1f24", "#667079", "#e3e7ea"
STYLE = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\""


class Scale:
    """Ratios on a logarithmic axis: twice as good and half as good are equally far from 1."""

    def __init__(self, ratios: Iterable[float]) -> None:
        found = [1.0, *ratios]
        self.low = max(tick for tick in TICKS if tick <= max(min(found), TICKS[0]))
        self.high = min(tick for tick in TICKS if tick >= min(max(max(found), 2.0), TICKS[-1]))
        # Room for the label of the longest bar.
        self.left, self.right = LABELS, WIDTH - VALUES - 60

    def place(self, ratio: float) -> float:
        bounded = min(max(ratio, self.low), self.high)
        share = math.log(bounded / self.low) / math.log(self.high / self.low)
        return self.left + share * (self.right - self.left)

    def list_ticks(self) -> list[float]:
        return [tick for tick in TICKS if self.low <= tick <= self.high]


def draw_chart(report: Report) -> str | None:
    """None when there is no peer to compare with."""
    ratios = report.find_ratios()
    if report.other is None or not ratios:
        return None
    rows = [report.results.rows[name] for name in ratios]
    height = TOP + ROW * len(rows) + BOTTOM
    scale = Scale([*ratios.values(), *(find_goal(name) or 1.0 for name in ratios)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" {STYLE}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *draw_title(report),
        *draw_grid(scale, len(rows)),
    ]
    for index, row in enumerate(rows):
        parts += draw_row(row, ratios[row.name], scale, TOP + ROW * index, report.other)
    parts += [*draw_legend(height, report.other), "</svg>"]
    return "\n".join(parts) + "\n"


def find_goal(name: str) -> float | None:
    return next((goal.times for goal in TARGETS.get(name, []) if isinstance(goal, TimesPeer)), None)


def draw_title(report: Report) -> list[str]:
    machine = report.machine
    versions = ", ".join(peer.version for peer in report.peers)
    setting = f"durable stores, medians of {report.repeat}, {machine.cores} cores, {machine.cpu}, {machine.date}"
    return [
        write(24, 34, f"{OURS} against {report.other}: how many times better", size=20, weight=600),
        write(24, 56, versions, size=12, fill=FAINT),
        write(24, 74, setting, size=12, fill=FAINT),
    ]


def draw_grid(scale: Scale, rows: int) -> list[str]:
    bottom = TOP + ROW * rows
    parts = []
    for tick in scale.list_ticks():
        x = scale.place(tick)
        colour, width = (INK, 1.2) if tick == 1 else (GRID, 1)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        )
        parts.append(write(x, TOP - 12, f"{tick:g}x", size=11, fill=FAINT, anchor="middle"))
    return parts


def draw_row(row: Row, ratio: float, scale: Scale, top: float, other: str) -> list[str]:
    middle = top + ROW / 2
    text_y = middle + 4
    one, end = scale.place(1), scale.place(ratio)
    left, width = min(one, end), max(abs(end - one), 1.5)
    mine, theirs = row.find_median(OURS), row.find_median(other)
    target = find_goal(row.name)
    goal = scale.place(target) if target is not None else None
    label = max(one, end) + 7
    if goal is not None and label - 7 < goal < label + LABEL_WIDTH:
        label = goal + 7
    values = f"{format_number(mine or 0)} / {format_number(theirs or 0)} {row.unit}"
    parts = [
        write(LABELS - 16, text_y, row.title, size=12.5, anchor="end"),
        f'<rect x="{left:.1f}" y="{middle - BAR / 2:.1f}" width="{width:.1f}" height="{BAR}" rx="2" '
        f'fill="{BETTER if ratio >= 1 else WORSE}"/>',
        write(label, text_y, f"{format_number(ratio)}x", size=12, weight=600),
        write(WIDTH - 24, text_y, values, size=11.5, fill=FAINT, anchor="end"),
    ]
    if goal is not None:
        parts.append(
            f'<line x1="{goal:.1f}" y1="{middle - 12:.1f}" x2="{goal:.1f}" y2="{middle + 12:.1f}" '
            f'stroke="{TARGET}" stroke-width="2.5"/>'
        )
    return parts


def draw_legend(height: int, other: str) -> list[str]:
    y = height - 20
    return [
        f'<rect x="{LABELS}" y="{y - 10}" width="12" height="12" rx="2" fill="{BETTER}"/>',
        write(LABELS + 18, y, "better", size=11.5, fill=FAINT),
        f'<rect x="{LABELS + 76}" y="{y - 10}" width="12" height="12" rx="2" fill="{WORSE}"/>',
        write(LABELS + 94, y, "worse", size=11.5, fill=FAINT),
        f'<line x1="{LABELS + 156}" y1="{y - 12}" x2="{LABELS + 156}" y2="{y + 4}" stroke="{TARGET}" '
        'stroke-width="2.5"/>',
        write(LABELS + 164, y, "target ratio", size=11.5, fill=FAINT),
        write(WIDTH - 24, y, f"{OURS} / {other}", size=11.5, fill=FAINT, anchor="end"),
    ]


def write(
    x: float, y: float, text: str, *, size: float, fill: str = INK, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
