"""Charts as inline SVG. Their colours come from the page's style sheet, so they follow its light and dark themes."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 30
TICKS_MAX = 6


class Series(NamedTuple):
    name: str
    css: str
    values: Sequence[float]


def even_ticks(most: float) -> list[float]:
    """Return the ticks of an axis from 0 to `most` or just above it: at most six, a round number apart."""
    if most <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(most / TICKS_MAX))
    while math.ceil(most / step - 1e-9) >= TICKS_MAX:
        digit = round(step / 10.0 ** math.floor(math.log10(step) + 1e-9))
        step *= 2.5 if digit == 2 else 2
    return [round(number * step, 6) for number in range(math.ceil(most / step - 1e-9) + 1)]


def stacked_bars(title: str, series: Sequence[Series], step_s: float) -> str:
    """One bar per step of time, with the series on top of each other."""
    count = max((len(one.values) for one in series), default=0)
    ticks = even_ticks(max((sum(one.values[at] for one in series) for at in range(count)), default=1))
    wide = (WIDTH - LEFT - RIGHT) / max(count, 1)
    parts = [_axes(ticks, "", count * step_s)]
    for at in range(count):
        below = 0.0
        for one in series:
            value = one.values[at]
            if value:
                top, bottom = _y(below + value, ticks[-1]), _y(below, ticks[-1])
                parts.append(
                    f'<rect class="{one.css}" x="{LEFT + at * wide + 1:.1f}" y="{top:.1f}" '
                    f'width="{max(wide - 2, 1):.1f}" height="{bottom - top:.1f}"/>'
                )
            below += value
    return _figure(title, "".join(parts), _legend(series))


def line(title: str, points: Sequence[tuple[float, float]], css: str, unit: str) -> str:
    """A value over time, as a line with the area below it filled."""
    last_s = max((x for x, _ in points), default=1.0) or 1.0
    ticks = even_ticks(max((y for _, y in points), default=1))
    placed = [(LEFT + x / last_s * (WIDTH - LEFT - RIGHT), _y(y, ticks[-1])) for x, y in points]
    path = " L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
    ends = f"L{placed[-1][0]:.1f} {_y(0, 1):.1f} L{placed[0][0]:.1f} {_y(0, 1):.1f} Z" if placed else ""
    shape = f'<path class="area {css}" d="M{path} {ends}"/><path class="line {css}" d="M{path}"/>' if placed else ""
    return _figure(title, _axes(ticks, unit, last_s) + shape, "")


def bars(title: str, values: Sequence[tuple[str, float]], css: str) -> str:
    """Names with horizontal bars, the longest first."""
    wide_max, tall, left = 460, 28, 120
    most = max((value for _, value in values), default=1) or 1
    parts = []
    for at, (name, value) in enumerate(values):
        y, wide = at * tall + 4, value / most * (wide_max - left - 70)
        parts.append(f'<text class="name" x="{left - 10}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{css}" x="{left}" y="{y}" width="{max(wide, 2):.1f}" height="{tall - 8}" rx="3"/>')
        parts.append(f'<text class="value" x="{left + max(wide, 2) + 8:.1f}" y="{y + 13}">{value:,.0f}</text>')
    return _figure(title, "".join(parts), "", wide_max, max(len(values), 1) * tall + 4)


def _figure(title: str, inside: str, legend: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption>{legend}<svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">{inside}</svg></figure>'
    )


def _legend(series: Sequence[Series]) -> str:
    items = "".join(f'<li><span class="key {one.css}"></span>{escape(one.name)}</li>' for one in series)
    return f'<ul class="legend">{items}</ul>'


def _axes(ticks: Sequence[float], unit: str, last_s: float) -> str:
    parts = []
    for value in ticks:
        y = _y(value, ticks[-1])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}{unit}</text>')
    for second in even_ticks(last_s):
        if second <= last_s:
            x = LEFT + (WIDTH - LEFT - RIGHT) * second / last_s
            anchor = "start" if second == 0 else "end" if second == last_s else "middle"
            parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{second:,g} s</text>')
    return "".join(parts)


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM)
