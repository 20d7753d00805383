"""The report: one HTML file without requests to anywhere, from what the rollup wrote and the jobs said."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from .charts import Series, bars, line, stacked_bars
from .lag import Sample

TEMPLATE = Path(__file__).with_name("report.html")
WINDOW_S = 1.0
TOP = 8


@dataclass(frozen=True)
class Findings:
    """What the demo has to tell. `windows` are the messages of the stream that the rollup writes."""

    url: str
    windows: Sequence[Mapping[str, Any]]
    lag: Sequence[Sample]
    jobs: Sequence[tuple[str, Mapping[str, Any]]]
    """Commands as typed, and their summaries."""

    def summary(self, job: str) -> Mapping[str, Any]:
        return [summary for _, summary in self.jobs if summary["job"] == job][-1]

    @property
    def messages(self) -> int:
        return sum(window["messages"] for window in self.windows)

    def by(self, name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for window in self.windows:
            if name in window:
                found[window[name]] += window["messages"]
        return found


def write_report(findings: Findings, path: Path) -> None:
    text = TEMPLATE.read_text("utf-8")
    parts = {
        "tiles": _tiles(findings),
        "traffic": _traffic(findings),
        "lag": line("Committed ids that the rollup was behind", [(s.second, s.lag) for s in findings.lag], "c3"),
        "streams": bars("Messages by stream", findings.by("stream").most_common(TOP), "c1"),
        "partitions": bars("Events by partition", findings.by("partition").most_common(TOP), "c2"),
        "types": _table(("type", "messages"), findings.by("type").most_common(TOP)),
        "jobs": "".join(_job(command, summary) for command, summary in findings.jobs),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    path.write_text(text, "utf-8")


def _tiles(findings: Findings) -> str:
    archive, audit, snapshot = (findings.summary(job) for job in ("archive", "audit", "snapshot"))
    tiles = [
        (f"{findings.messages:,}", "messages counted"),
        (f"{len(findings.by('stream'))} + {len(findings.by('partition'))}", "streams + partitions"),
        (f"{archive['rows']:,}", f"rows archived in {archive['files']} files"),
        (f"{snapshot.get('partitions', 0)}", "partitions folded into snapshots"),
        (f"{audit['faults']}", f"faults in {audit['rows']:,} audited rows"),
    ]
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(label)}</span></div>" for value, label in tiles)


def _traffic(findings: Findings) -> str:
    starts = [datetime.fromisoformat(window["window_start"]) for window in findings.windows]
    if not starts:
        return ""
    first = min(starts)
    count = int((max(starts) - first).total_seconds() / WINDOW_S) + 1
    streams, events = [0.0] * count, [0.0] * count
    for window, start in zip(findings.windows, starts, strict=True):
        values = streams if "stream" in window else events
        values[int((start - first).total_seconds() / WINDOW_S)] += window["messages"]
    series = [Series("streams, over HTTP", "c1", streams), Series("events, over WebSocket", "c2", events)]
    rows = [(f"{at * WINDOW_S:.0f} s", int(streams[at]), int(events[at])) for at in range(count)]
    table = _table(("time", "stream messages", "events"), rows)
    return (
        stacked_bars("Messages per second", series, WINDOW_S)
        + f"<details><summary>As a table</summary>{table}</details>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _job(command: str, summary: Mapping[str, Any]) -> str:
    facts = [(name.replace("_", " "), value) for name, value in summary.items() if value not in (None, [], {})]
    return f"<details><summary><code>{escape(command)}</code></summary>{_table(('fact', 'value'), facts)}</details>"
