"""`make demo`: it runs, its report agrees with the server, and it leaves nothing running."""

import importlib
import itertools
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.waits import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]


def spawn(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, "--folder", str(folder), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("examples", "src"))},
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(group: int) -> list[int]:
    """Return the processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            state, _, of_group = stat.rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                found.append(int(entry.name))
    return found


def gone(group: int) -> bool:
    """Wait until all processes of the group have ended. Java ends when the program that started it does."""
    return eventually(lambda: not members(group))


class Page(HTMLParser):
    """The words that a reader of the report sees, and the addresses that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.asked: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.asked += [value for name, value in attrs if name in ("src", "href", "data", "action")]

    def handle_data(self, data):
        if data.strip():
            self.words.append(data.strip())

    def before(self, label: str) -> str:
        """Return the number on the tile with this label."""
        return self.words[next(at for at, word in enumerate(self.words) if word.startswith(label)) - 1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_report_agrees_with_the_server(tmp_path, start_server, open_log):
    process = spawn(tmp_path / "demo", "--seconds", "3")
    text, errors = process.communicate(timeout=280)
    assert (process.returncode, errors) == (0, ""), text
    assert gone(process.pid)
    report = tmp_path / "demo" / "report.html"
    assert report.as_uri() in text
    page = Page(report.read_text())
    assert page.asked == []

    server = start_server(data=tmp_path / "demo" / "data")
    log = open_log(server.url)
    [archived] = [one for one in log.read("_mainstem/jobs") if one["job"] == "archive"]
    everything = [row for row in log.rows() if row["committed_id"] <= archived["position"]]
    reports = [row for row in everything if row["stream"] == "_mainstem/jobs"]
    rows = [row for row in everything if not (row["stream"] or "").startswith(("demo/", "_mainstem/"))]
    events = [row for row in rows if row["kind"] == "event"]
    assert page.before("messages and events counted") == f"{len(rows):,}"
    printed = re.search(r"([\d,]+) messages and ([\d,]+) events are committed", text)
    assert printed
    assert [int(number.replace(",", "")) for number in printed.groups()] == [len(rows) - len(events), len(events)]
    counts = len(everything) - len(rows) - len(reports) - 2
    parts = [len(rows) - len(events), len(events), counts, len(reports), 2]
    labels = ["messages that", "events that sync", "counts that the", "reports of the", "markers, before and after"]
    assert [page.before(label) for label in labels] == [f"{number:,}" for number in parts]
    assert page.before("rows in the log") == f"{len(everything):,}"
    assert any(f"committed id {archived['position']:,}." in word for word in page.words)
    assert page.before("streams + partitions") == (
        f"{len({row['stream'] for row in rows} - {None})} + {len({row['partitions'][0] for row in events})}"
    )
    assert page.before("faults in") == "0"
    for stream in {row["stream"] for row in rows} - {None}:
        assert stream in page.words


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ctrl_c_stops_everything(tmp_path):
    process = spawn(tmp_path / "demo", "--seconds", "60")
    planned = tmp_path / "demo" / "checkpoints" / "rollup" / "query" / "offsets"
    # Traffic is flowing, and Spark is running.
    eventually(planned.exists, within_s=100, unless=lambda: process.poll() is not None and process.communicate())
    os.killpg(process.pid, signal.SIGINT)
    text, errors = process.communicate(timeout=90)
    assert (process.returncode, errors) == (130, "")
    assert "Stopped" in text
    assert gone(process.pid)


@pytest.fixture
def demo(monkeypatch):
    """The modules of the demo, which is not installed."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    names = ("charts", "lag", "picture", "report", "transcript")
    return SimpleNamespace(**{name: importlib.import_module(f"demo.{name}") for name in names})


JOBS = [
    ("mainstem pipeline archive", {"job": "archive", "rows": 0, "files": 0}),
    ("mainstem pipeline snapshot", {"job": "snapshot", "partitions": 0}),
    ("mainstem pipeline audit <x>", {"job": "audit", "rows": 0, "faults": 2}),
]


def test_a_report_without_traffic_can_be_written(tmp_path, demo):
    findings = demo.report.Findings([], [demo.lag.Sample(0.25, 7, 0)], JOBS)
    demo.report.write_report(findings, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert (page.before("messages and events"), page.before("faults in")) == ("0", "2")
    assert page.asked == []
    assert "mainstem pipeline audit <x>" in page.words
    assert not re.search(r"<!-- \w+ -->", text)


def test_the_number_of_seconds_is_limited(tmp_path):
    process = spawn(tmp_path / "demo", "--seconds", "100000")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--seconds must be between 1 and 600" in errors


@pytest.mark.parametrize("most", [0, 0.3, 1, 6, 7.5, 19.9, 20, 21, 57, 570, 3_130, 12_345])
def test_ticks_are_even_round_and_few(most, demo):
    ticks = demo.charts.even_ticks(most)
    steps = {round(after - before, 6) for before, after in itertools.pairwise(ticks)}
    assert len(steps) == 1
    assert f"{steps.pop():e}"[:3] in ("1.0", "2.0", "5.0")
    assert ticks[0] == 0
    assert ticks[-2] < max(most, 1e-9) <= ticks[-1] or most == 0
    assert len(ticks) <= 7


def test_lag_is_the_age_of_the_oldest_record_that_was_not_counted(demo):
    samples = [demo.lag.Sample(*facts) for facts in [(0, 0, 0), (1, 5, 0), (2, 9, 0), (3, 12, 5), (4, 12, 12)]]
    assert demo.lag.lag_seconds(samples) == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 0)]


def check_picture(text):
    """The picture stands alone, is small, and names no path of the machine that it was made on."""
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert len(text.encode()) < 60_000
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in attributes if name.rpartition("}")[2] in ("href", "src")}
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        *("svg", "title", "style", "rect", "path", "circle", "text", "tspan", "g")
    }
    assert "url(" not in text
    assert "file:" not in text
    return "\n".join("".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text"))


def test_the_picture_shows_the_terminal_and_the_charts(tmp_path, demo):
    windows = [
        {"window_start": f"2026-01-01T00:00:0{second}Z", kind: "x", "messages": 10 * second + 1}
        for second in range(9)
        for kind in ("stream", "partition")
    ]
    samples = [demo.lag.Sample(at / 4, at, max(at - 10, 0)) for at in range(40)]
    lines = [demo.transcript.Line(0, "Spark is <starting>."), demo.transcript.Line(5, "$ mainstem " + "word " * 40)]
    rounds = [demo.transcript.Line(6 + at, f"  {at} rows read in 1 s") for at in range(20)]
    findings = demo.report.Findings(windows, samples, JOBS, began_s=2.0)
    demo.picture.write_picture([*lines, *rounds], findings, tmp_path / "new" / "demo.svg")
    text = (tmp_path / "new" / "demo.svg").read_text()
    shown = check_picture(text)
    assert "Spark is <starting>." in shown
    assert "word \\\n" in shown
    assert "0 rows read" in shown
    assert "19 rows read" in shown
    assert "15 rows read" not in shown
    assert shown.count("  ...") == 1
    assert text.count('class="up"') == 9


def test_the_picture_in_the_documentation_is_one_of_ours():
    shown = check_picture((ROOT / "docs" / "assets" / "demo.svg").read_text())
    for words in (
        "make demo",
        "mainstem pipeline rollup",
        "mainstem pipeline audit",
        "0 faults",
        "Messages and events",
    ):
        assert words in shown
