"""`make demo`: it runs, its report says what the server says, and it leaves nothing running."""

import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.waits import eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]


def spawn(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, "--folder", str(folder), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "examples")},
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(group: int) -> list[int]:
    """Processes of a process group."""
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
    """Whether all of them end: Java does so when it sees that the program that has started it is gone."""
    return eventually(lambda: not members(group))


class Page(HTMLParser):
    """What a reader of the report sees, and whom the page would ask for something."""

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
        """The number on the tile with this label."""
        return self.words[next(at for at, word in enumerate(self.words) if word.startswith(label)) - 1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_report_says_what_the_server_says(tmp_path, start_server, open_log):
    process = spawn(tmp_path / "demo", "--seconds", "3")
    text, errors = process.communicate(timeout=280)
    assert (process.returncode, errors) == (0, ""), text
    assert gone(process.pid)
    report = tmp_path / "demo" / "report.html"
    assert report.as_uri() in text
    page = Page(report.read_text())
    assert page.asked == []

    log = open_log(start_server(data=tmp_path / "demo" / "data").url)
    rows = [row for row in log.rows() if not (row["stream"] or "").startswith("demo/")]
    events = [row for row in rows if row["kind"] == "event"]
    assert page.before("messages counted") == f"{len(rows):,}"
    told = re.search(r"([\d,]+) messages and ([\d,]+) events were committed", text)
    assert told
    assert [int(number.replace(",", "")) for number in told.groups()] == [len(rows) - len(events), len(events)]
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
    # Traffic flows, and Spark is at work.
    eventually(planned.exists, within_s=100, unless=lambda: process.poll() is not None and process.communicate())
    os.killpg(process.pid, signal.SIGINT)
    text, errors = process.communicate(timeout=90)
    assert (process.returncode, errors) == (130, "")
    assert "Stopped" in text
    assert gone(process.pid)


def test_a_report_without_traffic_can_be_written(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from demo.lag import Sample
    from demo.report import Findings, write_report

    jobs = [
        ("mainstem pipeline archive", {"job": "archive", "rows": 0, "files": 0}),
        ("mainstem pipeline snapshot", {"job": "snapshot", "partitions": 0}),
        ("mainstem pipeline audit <x>", {"job": "audit", "rows": 0, "faults": 2}),
    ]
    write_report(Findings("http://x", [], [Sample(0.25, 7, 0)], jobs), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert (page.before("messages counted"), page.before("faults in")) == ("0", "2")
    assert page.asked == []
    assert "mainstem pipeline audit <x>" in page.words
    assert not re.search(r"<!-- \w+ -->", text)


def test_seconds_are_bounded(tmp_path):
    process = spawn(tmp_path / "demo", "--seconds", "100000")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--seconds is between 1 and 600" in errors
