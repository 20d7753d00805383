"""`make demo`, or `PYTHONPATH=examples python -m demo`: see docs/start/demo.md."""

import argparse
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import time
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any

from mainstem.testing.server import ServerProcess

from .jobs import JobFailed, Jobs, stop_spark
from .lag import EVERY_S, LagSampler
from .picture import write_picture
from .report import MARKERS, Findings, write_report
from .traffic import Traffic
from .transcript import Transcript

COUNTS = "demo/per-second"
REPORTS = "_mainstem/jobs"
ROLLUP = ("--into", COUNTS, "--window", "1s", "--lateness", "1s", "--by", "stream,partition,type")
SNAPSHOT = ("lww", "--partitions", "board-*", "--key", "key")
SECONDS = 20.0
SECONDS_MAX = 600.0
OURS = ("data", "lake", "checkpoints")


def main() -> int:
    parser = argparse.ArgumentParser(
        "demo", description="Start a server, send it live traffic, run pipeline jobs, and write a report with charts."
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the traffic lasts (%(default)g)")
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="the folder for all files (%(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw the run as an animated SVG")
    arguments = parser.parse_args()
    if not 1 <= arguments.seconds <= SECONDS_MAX:
        parser.error(f"--seconds must be between 1 and {SECONDS_MAX:.0f}")
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs the calls that Ctrl-C has cut short
    try:
        run(arguments.folder, arguments.seconds, arguments.picture)
    except KeyboardInterrupt:
        print("\nStopped, and the server with it.", flush=True)
        os._exit(130)  # threads may still wait for the server, which Ctrl-C has stopped as well
    except JobFailed as error:
        print(f"A job failed: {error}", file=sys.stderr)
        return 1
    return 0


def run(folder: Path, seconds: float, picture: Path | None = None) -> Path:
    """Run the whole demo and return the path of its report. Everything that it starts is stopped when it ends."""
    for name in OURS:
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    out = Transcript()
    with ServerProcess(folder / "data") as server:
        out.say(f"A server is running on {server.url}, with its log in {folder / 'data'}.")
        os.environ["MAINSTEM_URL"] = server.url
        out.say(f"$ export MAINSTEM_URL={server.url}")
        try:
            findings = _tour(out, Jobs(folder / "checkpoints"), server.url, folder, seconds)
        finally:
            stop_spark()
    report = folder / "report.html"
    write_report(findings, report)
    out.say(f"Done in {out.elapsed_s:.0f} s. The server has stopped. Open {report} in a browser.")
    if picture is not None:
        write_picture(out.lines, findings, picture)
    print(f"\n  {report.resolve().as_uri()}\n", flush=True)
    return report


def _tour(out: Transcript, jobs: Jobs, url: str, folder: Path, seconds: float) -> Findings:
    done: list[tuple[str, dict[str, Any]]] = []

    def announce(name: str, *arguments: str) -> str:
        command = shlex.join(["mainstem", *jobs.command(name, *arguments)])
        out.say(f"$ {command}")
        return command

    def job(name: str, *arguments: str) -> dict[str, Any]:
        command = announce(name, *arguments)
        summary = jobs.run(name, *arguments)
        done.append((command, summary))
        return summary

    out.say("Spark is starting.")
    _mark(url, "begin")
    jobs.run("rollup", *ROLLUP)  # a round over one message: it starts Spark, and loads all that a round needs
    with LagSampler(url) as sampler:
        out.say(f"Traffic for {seconds:g} s: producers append over HTTP, sync clients submit over WebSocket.")
        command = announce("rollup", *ROLLUP)
        began_s = out.elapsed_s
        with Traffic(url, seconds) as traffic:
            while traffic.flowing:
                round_ = jobs.run("rollup", *ROLLUP)
                sampler.reach(round_["committed_id"])
                out.say(f"  {round_['rows']:,} rows read in {round_['seconds']:.1f} s")
            sent = traffic.wait()
        sampler.end_traffic()
        out.say(f"{sent.messages:,} messages and {sent.events:,} events are committed. One more round counts the rest.")
        time.sleep(2.5)  # so that the marker is newer than the last window, by more than --lateness
        _mark(url, "end")
        last = jobs.run("rollup", *ROLLUP)
        sampler.reach(last["committed_id"])
        done.append((command, last))
        out.say(f"  {last['rows']:,} rows read in {last['seconds']:.1f} s")
        time.sleep(2 * EVERY_S)  # for a last sample
    reports = len(_read(url, REPORTS))
    archive = job("archive", str(folder / "lake"))
    out.say(f"  {archive['rows']:,} rows archived in {archive['files']} Parquet files, {archive['seconds']:.1f} s")
    snapshot = job("snapshot", *SNAPSHOT)
    out.say(
        f"  {snapshot['rows']:,} events folded into {snapshot['partitions']} snapshots, {snapshot['seconds']:.1f} s"
    )
    audit = job("audit", "--archive", str(folder / "lake"))
    out.say(f"  {audit['rows']:,} rows audited, {audit['faults']} faults, {audit['seconds']:.1f} s")
    return Findings(_read(url, COUNTS), sampler.samples, done, began_s, reports)


def _mark(url: str, type_: str) -> None:
    """Append a marker: the first one gives Spark something to do, and the last one lets the rollup end its windows."""
    _call("PUT", f"{url}/v1/stream/{MARKERS}", None)
    _call("POST", f"{url}/v1/stream/{MARKERS}", json.dumps({"type": type_}).encode())


def _read(url: str, stream: str) -> list[dict[str, Any]]:
    """Return all messages of a JSON stream."""
    found: list[dict[str, Any]] = []
    offset = "-1"
    while True:
        body, headers = _call("GET", f"{url}/v1/stream/{stream}?offset={offset}", None)
        found += json.loads(body)
        offset = headers["stream-next-offset"]
        if headers.get("stream-up-to-date") == "true":
            return found


def _call(method: str, url: str, body: bytes | None) -> tuple[bytes, dict[str, str]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    with opener.open(request, timeout=30) as reply:
        return reply.read(), {name.lower(): value for name, value in reply.headers.items()}


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
