"""Draws a run of the demo as one SVG: the terminal as it filled, and two charts that grow with it.

The animation plays once and ends with the complete picture, which is also what a viewer without animations shows. The
file loads nothing else, and follows the reader's light or dark theme.

    PYTHONPATH=examples python -m demo --picture docs/assets/demo.svg
"""

import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from .charts import even_ticks
from .lag import lag_seconds
from .report import WINDOW_S, Findings
from .transcript import Line

WIDTH = 880
LEAD_S, PLAY_S = 1.5, 14.0
"""How long the animation takes until the traffic begins, and in all, whatever the demo took."""
COLUMNS = 106
LINE_HEIGHT = 18
TERMINAL_TOP = 54
CHART_HEIGHT, CHART_GAP = 128, 24
ROUNDS_SHOWN = 6

STYLE = """
svg { --back: #ffffff; --card: #f6f8fa; --bar: #eaeef2; --text: #1f2328; --soft: #59636e; --rule: #d1d9e0;
  --c1: #1f6fb2; --c2: #d9822b; --c3: #6a51a3; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --card: #161b22; --bar: #21262d; --text: #e6edf3; --soft: #9198a1; --rule: #3d444d;
    --c1: #5aa9e6; --c2: #f0a95b; --c3: #ab95e0; }
}
.card { fill: var(--card); stroke: var(--rule); } .bar { fill: var(--bar); } .dot { fill: var(--rule); }
text { fill: var(--text); font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
.title, .tick { fill: var(--soft); font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; }
.head { font: 600 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
.command { font-weight: 600; } .prompt { fill: var(--c1); } .result { fill: var(--soft); }
.grid { stroke: var(--rule); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); }
.area { fill: var(--c3); opacity: .18; } .line { fill: none; stroke: var(--c3); stroke-width: 1.75; }
@media (prefers-reduced-motion: no-preference) {
  .in { animation: in .2s backwards; }
  .up { animation: up .4s backwards; transform-box: fill-box; transform-origin: bottom; }
  .along { animation: along linear backwards; }
}
@keyframes in { from { opacity: 0; } }
@keyframes up { from { transform: scaleY(0); } }
@keyframes along { from { clip-path: inset(0 100% 0 0); } to { clip-path: inset(0 0 0 0); } }
"""


class Playback(NamedTuple):
    """Maps the time of the demo to that of the animation, which shortens the start of Spark."""

    began_s: float
    last_s: float

    def when(self, second: float) -> float:
        if second < self.began_s:
            return second / self.began_s * LEAD_S
        return LEAD_S + (second - self.began_s) / max(self.last_s - self.began_s, 1.0) * (PLAY_S - LEAD_S)


def write_picture(lines: Sequence[Line], findings: Findings, path: Path) -> None:
    shown = _wrap(_thin_out(lines))
    playback = Playback(findings.began_s, lines[-1].second if lines else 0.0)
    charts_top = TERMINAL_TOP + len(shown) * LINE_HEIGHT + 26
    height = charts_top + CHART_HEIGHT + 66
    inside = _terminal(shown, playback, charts_top - 16) + _charts(findings, playback, charts_top)
    title = "The demo in a terminal, with charts of its traffic and of how far the rollup is behind"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{title}"><title>{title}</title><style>{STYLE}</style>{inside}</svg>\n',
        "utf-8",
    )


def _thin_out(lines: Sequence[Line]) -> list[Line]:
    """Replace the rounds in the middle of the rollup by an ellipsis if there are many."""
    rounds = [at for at, line in enumerate(lines) if " rows read in " in line.text]
    dropped = rounds[ROUNDS_SHOWN - 1 : -1]
    short = [Line(line.second, "  ...") if at in dropped[:1] else line for at, line in enumerate(lines)]
    return [line for at, line in enumerate(short) if at not in dropped[1:]]


def _wrap(lines: Sequence[Line]) -> list[Line]:
    shown = []
    for line in lines:
        if line.text.startswith("$ "):
            parts = textwrap.wrap(line.text, COLUMNS, subsequent_indent="    ", break_on_hyphens=False)
            parts[:-1] = [f"{part} \\" for part in parts[:-1]]
        else:
            parts = textwrap.wrap(line.text, COLUMNS, drop_whitespace=False)
        shown += [Line(line.second, part) for part in parts]
    return shown


def _terminal(lines: Sequence[Line], playback: Playback, height: int) -> str:
    parts = [
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height}" rx="9"/>'
        f'<path class="bar" d="M1 32V10a9 9 0 0 1 9-9H{WIDTH - 10}a9 9 0 0 1 9 9V32Z"/>',
        *(f'<circle class="dot" cx="{18 + 18 * at}" cy="17" r="5.5"/>' for at in range(3)),
        f'<text class="title" x="{WIDTH / 2:g}" y="21" text-anchor="middle">make demo</text>',
    ]
    command = False
    for at, line in enumerate(lines):
        continued = command and line.text.startswith("    ")
        command = continued or line.text.startswith("$ ")
        css = "command" if command else "result" if line.text.startswith("  ") else ""
        text = escape(line.text, quote=False)
        if text.startswith("$ "):
            text = f'<tspan class="prompt">$</tspan> {text[2:]}'
        delay = f"animation-delay:{playback.when(line.second):.2f}s"
        y = TERMINAL_TOP + at * LINE_HEIGHT
        parts.append(f'<text class="in {css}" style="{delay}" x="18" y="{y}" xml:space="preserve">{text}</text>')
    return "".join(parts)


def _charts(findings: Findings, playback: Playback, top: int) -> str:
    wide = (WIDTH - CHART_GAP) / 2
    lag = lag_seconds(findings.lag)
    streams, events = findings.per_second()
    return _traffic(streams, events, playback, top, wide) + _lag(lag, playback, top, wide + CHART_GAP, wide)


def _traffic(streams: Sequence[float], events: Sequence[float], playback: Playback, top: int, wide: float) -> str:
    ticks = even_ticks(max((one + other for one, other in zip(streams, events, strict=True)), default=1))
    panel = Panel(0, top, wide, ticks, "", max(len(streams), 1) * WINDOW_S)
    heading = '<tspan class="c1">Messages</tspan> and <tspan class="c2">events</tspan> per second'
    parts = [panel.draw(heading)]
    step = panel.width / max(len(streams), 1)
    wide = step - 2
    for at, (one, other) in enumerate(zip(streams, events, strict=True)):
        delay = playback.when(playback.began_s + (at + 1) * WINDOW_S)
        x, middle, y = panel.left + at * step + 1, panel.y(one), panel.y(one + other)
        parts.append(
            f'<g class="up" style="animation-delay:{delay:.2f}s">'
            f'<rect class="c1" x="{x:.1f}" y="{middle:.1f}" width="{wide:.1f}" height="{panel.bottom - middle:.1f}"/>'
            f'<rect class="c2" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{middle - y:.1f}"/></g>'
        )
    return "".join(parts)


def _lag(lag: Sequence[tuple[float, float]], playback: Playback, top: int, left: float, wide: float) -> str:
    last_s = max((second for second, _ in lag), default=1.0) or 1.0
    panel = Panel(left, top, wide, even_ticks(max((value for _, value in lag), default=1)), " s", last_s)
    parts = [panel.draw("Seconds that the rollup is behind the log")]
    points = " L".join(
        f"{panel.left + second / last_s * panel.width:.1f} {panel.y(value):.1f}" for second, value in lag
    )
    if points:
        start_s, end_s = playback.when(playback.began_s), playback.when(playback.began_s + last_s)
        timing = f"animation-delay:{start_s:.2f}s;animation-duration:{end_s - start_s:.2f}s"
        start, end = f"M{panel.left:.1f} {panel.bottom:.1f}", f"{panel.left + panel.width:.1f} {panel.bottom:.1f}Z"
        parts.append(
            f'<g class="along" style="{timing}"><path class="area" d="{start} L{points} L{end}"/>'
            f'<path class="line" d="M{points}"/></g>'
        )
    return "".join(parts)


class Panel:
    """A card with a heading and two axes."""

    def __init__(self, x: float, top: int, wide: float, ticks: Sequence[float], unit: str, last_s: float) -> None:
        self._x, self._top, self._wide = x, top, wide
        self._ticks, self._unit, self._last_s = ticks, unit, last_s
        self.left, self.width = x + 50, wide - 66
        self.top = top + 34
        self.bottom = self.top + CHART_HEIGHT - 14

    def y(self, value: float) -> float:
        return self.bottom - value / self._ticks[-1] * (self.bottom - self.top)

    def draw(self, heading: str) -> str:
        height = CHART_HEIGHT + 50
        parts = [
            f'<rect class="card" x="{self._x + 0.5:g}" y="{self._top + 0.5:g}" width="{self._wide - 1:g}" '
            f'height="{height}" rx="9"/><text class="head" x="{self._x + 16:g}" y="{self._top + 22}">{heading}</text>'
        ]
        for tick in self._ticks:
            y = self.y(tick)
            parts.append(f'<path class="grid" d="M{self.left:.1f} {y:.1f}h{self.width:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{self.left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">'
                f"{tick:,g}{self._unit}</text>"
            )
        for second in even_ticks(self._last_s):
            if second <= self._last_s:
                x = self.left + second / self._last_s * self.width
                parts.append(
                    f'<text class="tick" x="{x:.1f}" y="{self.bottom + 18:.1f}" text-anchor="middle">'
                    f"{second:g} s</text>"
                )
        return "".join(parts)
