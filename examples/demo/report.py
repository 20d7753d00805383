"""Writes the report: one HTML file that loads nothing else, drawn from the rollup's counts and the jobs' summaries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from .charts import Series, bars, line, stacked_bars
from .lag import Sample, lag_seconds

TEMPLATE = Path(__file__).with_name("report.html")
MARKERS = "demo/markers"
WINDOW_S = 1.0
TOP = 8


@dataclass(frozen=True)
class Findings:
    """What the demo has measured."""

    counts: Sequence[Mapping[str, Any]]
    """The messages of the stream that the rollup writes: one count each, including those of the markers."""
    lag: Sequence[Sample]
    jobs: Sequence[tuple[str, Mapping[str, Any]]]
    """Commands as typed, with the summaries of their (last) rounds."""
    began_s: float = 0.0
    """When the traffic began, in seconds since the start of the demo."""
    reports: int = 0
    """How many rounds the jobs had reported to the server before the archive was made."""

    @property
    def windows(self) -> list[Mapping[str, Any]]:
        """The counts of the traffic."""
        return [count for count in self.counts if count.get("stream") != MARKERS]

    def summary(self, job: str) -> Mapping[str, Any]:
        return [summary for _, summary in self.jobs if summary["job"] == job][-1]

    @property
    def stream_messages(self) -> int:
        return sum(window["messages"] for window in self.windows if "stream" in window)

    @property
    def events(self) -> int:
        return sum(window["messages"] for window in self.windows if "stream" not in window)

    def per_second(self) -> tuple[list[float], list[float]]:
        """Return the stream messages and the events of each second."""
        starts = [datetime.fromisoformat(window["window_start"]) for window in self.windows]
        if not starts:
            return [], []
        first = min(starts)
        count = int((max(starts) - first).total_seconds() / WINDOW_S) + 1
        streams, events = [0.0] * count, [0.0] * count
        for window, start in zip(self.windows, starts, strict=True):
            values = streams if "stream" in window else events
            values[int((start - first).total_seconds() / WINDOW_S)] += window["messages"]
        return streams, events

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
        "sum": _sum(findings),
        "lag": line("Seconds that the rollup was behind the log", lag_seconds(findings.lag), "c3", " s"),
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
        (f"{findings.stream_messages + findings.events:,}", "messages and events counted"),
        (f"{len(findings.by('stream'))} + {len(findings.by('partition'))}", "streams + partitions"),
        (f"{archive['rows']:,}", f"rows archived in {archive['files']} files"),
        (f"{snapshot.get('partitions', 0)}", "partitions folded into snapshots"),
        (f"{audit['faults']}", f"faults in {audit['rows']:,} audited rows"),
    ]
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(label)}</span></div>" for value, label in tiles)


def _sum(findings: Findings) -> str:
    """Explain why there are more rows than messages, and fewer ids than rows."""
    archive = findings.summary("archive")
    rows = archive["rows"]
    parts = [
        (findings.stream_messages, "messages that producers appended to streams"),
        (findings.events, "events that sync clients submitted"),
        (len(findings.counts), "counts that the rollup wrote back, which it does not count itself"),
        (findings.reports, "reports of the rollup's rounds, which it does not count either"),
    ]
    rest = rows - sum(number for number, _ in parts)
    parts.append((rest, "markers, before and after the traffic"))
    lines = "".join(f"<tr><td>{number:,}</td><td>{escape(text)}</td></tr>" for number, text in parts)
    total = f"<tr><th>{rows:,}</th><th>rows in the log; all of them were archived and audited</th></tr>"
    ids = (
        f"The archive ends at committed id {archive.get('committed_id', 0):,}. An append takes one id, however many "
        "messages it holds. Creating a stream takes one id, too, and adds no row."
    )
    return f'<table class="sum"><tbody>{lines}</tbody><tfoot>{total}</tfoot></table><p>{ids}</p>'


def _traffic(findings: Findings) -> str:
    streams, events = findings.per_second()
    if not streams:
        return ""
    series = [Series("messages, over HTTP", "c1", streams), Series("events, over WebSocket", "c2", events)]
    rows = [(f"{at * WINDOW_S:.0f} s", int(streams[at]), int(events[at])) for at in range(len(streams))]
    table = _table(("time", "messages", "events"), rows)
    return (
        stacked_bars("Messages and events per second", series, WINDOW_S)
        + f"<details><summary>As a table</summary>{table}</details>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(_show(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _show(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _job(command: str, summary: Mapping[str, Any]) -> str:
    facts = [(name.replace("_", " "), value) for name, value in summary.items() if value not in (None, [], {})]
    return f"<details><summary><code>{escape(command)}</code></summary>{_table(('fact', 'value'), facts)}</details>"
