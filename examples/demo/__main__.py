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
from .lag import LagSampler
from .report import Findings, write_report
from .traffic import Traffic

ROLLED = "demo/per-second"
ROLLUP = ("--into", ROLLED, "--window", "1s", "--late", "1s", "--by", "stream,partition,type")
SNAPSHOT = ("lww", "--partitions", "board-*", "--key", "key")
SECONDS = 20.0
SECONDS_MAX = 600.0
OURS = ("data", "lake", "checkpoints")


def main() -> int:
    parser = argparse.ArgumentParser("demo", description="A server, live traffic, pipeline jobs, and a report.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of traffic (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where everything goes (./%(default)s)")
    arguments = parser.parse_args()
    if not 1 <= arguments.seconds <= SECONDS_MAX:
        parser.error(f"--seconds is between 1 and {SECONDS_MAX:.0f}")
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j tells of calls that Ctrl-C has cut short
    try:
        run(arguments.folder, arguments.seconds)
    except KeyboardInterrupt:
        say("\nStopped, and the server with it.")
        os._exit(130)  # threads may still wait for the server, which Ctrl-C has stopped as well
    except JobFailed as error:
        print(f"A job failed: {error}", file=sys.stderr)
        return 1
    return 0


def run(folder: Path, seconds: float) -> Path:
    """The whole tour; whatever it starts is stopped when it ends."""
    for name in OURS:
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    with ServerProcess(folder / "data") as server:
        say(f"A server runs on {server.url}, its log is in {folder / 'data'}.")
        try:
            findings = _tour(Jobs(server.url, folder / "checkpoints"), server.url, folder, seconds)
        finally:
            stop_spark()
    report = (folder / "report.html").resolve()
    write_report(findings, report)
    say(f"Done in {time.monotonic() - begun_s:.0f} s. The server is stopped. Open the report:\n\n  {report.as_uri()}\n")
    return report


def _tour(jobs: Jobs, url: str, folder: Path, seconds: float) -> Findings:
    done: list[tuple[str, dict[str, Any]]] = []

    def job(name: str, *arguments: str) -> dict[str, Any]:
        command = shlex.join(["mainstem", *jobs.command(name, *arguments)])
        say(f"$ {command}")
        summary = jobs.run(name, *arguments)
        done.append((command, summary))
        return summary

    with LagSampler(url) as sampler:
        with Traffic(url, seconds) as traffic:
            say(f"Traffic for {seconds:g} s: producers over HTTP, sync clients over WebSocket. Spark starts beside it.")
            say(f"$ {shlex.join(['mainstem', *jobs.command('rollup', *ROLLUP)])}")
            while traffic.flowing:
                sampler.reach(jobs.run("rollup", *ROLLUP)["committed_id"])
            sent = traffic.wait()
        say(f"{sent.messages:,} messages and {sent.events:,} events were committed.")
        _end_windows(url)
        rolled = job("rollup", *ROLLUP)
        sampler.reach(rolled["committed_id"])
        time.sleep(0.5)  # for one more sample, at the end
    archive = job("archive", str(folder / "lake"))
    job("snapshot", *SNAPSHOT)
    audit = job("audit", "--archive", str(folder / "lake"))
    say(f"{archive['rows']:,} rows are archived; the audit of log and archive found {audit['faults']} faults.")
    return Findings(url, _read(url, ROLLED), sampler.samples, done)


def _end_windows(url: str) -> None:
    """A window is written when something newer has passed its end: this is it."""
    time.sleep(2.5)
    stream = f"{url}/v1/stream/demo/end"
    _call("PUT", stream, None)
    _call("POST", stream, b'{"type":"end"}')


def _read(url: str, stream: str) -> list[dict[str, Any]]:
    """Every message of a JSON stream."""
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


def say(text: str) -> None:
    print(text, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
