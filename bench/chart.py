"""An SVG bar chart of the ratios to the peer, drawn without a library."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bench.formats import format_number
from bench.peers import OURS
from bench.report import Report, format_ratio
from bench.targets import TARGETS, Mark, TimesElectric, judge_measurement

WIDTH = 1080
LEFT, RIGHT = 340, 800
ROW = 30
BAR = 16
LABEL_WIDTH = 44
TOP = 136
BOTTOM = 52
RATIO_MAX = 1.5  # longer bars end at the edge, and their label has the number
TICKS = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5)

COLOURS: dict[Mark, str] = {"pass": "#1f7a6d", "MISS": "#c2571a", "-": "#8a97a3"}
LEGEND: dict[Mark, str] = {"pass": "target reached", "MISS": "target missed", "-": "no target"}
INK, FAINT, GRID = "#1b1f24", "#667079", "#e3e7ea"
STYLE = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\""


@dataclass(frozen=True)
class Bar:
    title: str
    ratio: float
    values: str
    mark: Mark
    goal: float | None


def draw_chart(report: Report) -> str | None:
    """Return the chart as SVG; None if there is no peer to compare with."""
    bars = list_bars(report)
    if not bars:
        return None
    height = TOP + ROW * len(bars) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" {STYLE}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *draw_title(report),
        *draw_grid(len(bars)),
    ]
    for index, bar in enumerate(bars):
        parts += draw_bar(bar, TOP + ROW * index)
    parts += [*draw_legend(height - 20), "</svg>"]
    return "\n".join(parts) + "\n"


def list_bars(report: Report) -> list[Bar]:
    bars = []
    for row in report.results.rows.values():
        ratio = report.find_ratio(row)
        if ratio is not None:
            mine, theirs = row.find_median(OURS) or 0, row.find_median(report.other or "") or 0
            values = f"{format_number(mine)} / {format_number(theirs)} {row.unit}"
            mark, target = judge_measurement(row.name, report.results), TARGETS.get(row.name)
            goal = target.times if isinstance(target, TimesElectric) and mark != "-" else None
            bars.append(Bar(row.title, ratio, values, mark, goal))
    return bars


def draw_title(report: Report) -> list[str]:
    machine = report.machine
    versions = ", ".join(peer.version for peer in report.peers)
    setting = f"durable stores, medians of {report.pace.repeat}, {machine.cores} cores, {machine.cpu}, {machine.date}"
    meaning = f"1x is as good as {report.other}, and more is better. The values are {OURS} / {report.other}."
    return [
        write(24, 34, f"{OURS} beside {report.other}", size=20, weight=600),
        write(24, 56, versions, size=12, fill=FAINT),
        write(24, 74, setting, size=12, fill=FAINT),
        write(24, 98, meaning, size=12.5),
    ]


def draw_grid(rows: int) -> list[str]:
    parts = []
    for tick in TICKS:
        colour, width = (INK, 1.2) if tick == 1 else (GRID, 1)
        parts.append(draw_line(place(tick), TOP - 6, TOP + ROW * rows, colour, width))
        parts.append(write(place(tick), TOP - 12, f"{tick:g}x", size=11, fill=FAINT, anchor="middle"))
    return parts


def place(ratio: float) -> float:
    return LEFT + min(ratio, RATIO_MAX) / RATIO_MAX * (RIGHT - LEFT)


def draw_bar(bar: Bar, top: float) -> list[str]:
    middle = top + ROW / 2
    text_y = middle + 4
    end = label = place(bar.ratio)
    parts = [
        write(LEFT - 16, text_y, bar.title, size=12.5, anchor="end"),
        draw_box(LEFT, middle - BAR / 2, max(end - LEFT, 1.5), BAR, COLOURS[bar.mark]),
        write(WIDTH - 24, text_y, bar.values, size=11.5, fill=FAINT, anchor="end"),
    ]
    if bar.goal is not None:
        goal = place(bar.goal)
        parts.append(draw_line(goal, middle - 12, middle + 12, INK, 2.5))
        if end <= goal < end + LABEL_WIDTH:
            label = goal
    return [*parts, write(label + 7, text_y, format_ratio(bar.ratio), size=12, weight=600)]


def draw_legend(y: float) -> list[str]:
    parts, x = [], float(LEFT)
    for mark, text in LEGEND.items():
        parts += [draw_box(x, y - 10, 12, 12, COLOURS[mark]), write(x + 18, y, text, size=11.5, fill=FAINT)]
        x += 120
    return [*parts, draw_line(x, y - 12, y + 4, INK, 2.5), write(x + 8, y, "target", size=11.5, fill=FAINT)]


def draw_box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2" fill="{colour}"/>'


def draw_line(x: float, top: float, bottom: float, colour: str, width: float) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{colour}" stroke-width="{width}"/>'
    )


def write(
    x: float, y: float, text: str, *, size: float, fill: str = INK, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
