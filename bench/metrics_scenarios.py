"""What metrics cost: appends with and without them, on two servers that take turns and so meet the same noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.generator import run_load
from bench.load_jobs import Append, Figures, Fill
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Peer, Server, serve

STREAM = "measured"
PAIRS = 12
"""Turns of each server. A slow second of the machine changes the ratio of one pair, and the median leaves it out."""


def turn_off_metrics(peer: Peer) -> Peer:
    def make_command(port: int, data: Path) -> list[str]:
        return [*peer.make_command(port, data), "--metrics", "off"]

    return replace(peer, make_command=make_command)


def measure_metrics(server: Server, pace: Pace) -> list[Measurement]:
    def append(each: Server) -> Figures:
        job = Append(
            port=each.port,
            pid=each.pid,
            connections=64,
            stream=STREAM,
            seconds=pace.seconds / 4,
            warmup_s=pace.warmup_s / 4,
        )
        return run_load(job)

    with serve(turn_off_metrics(server.peer)) as bare:
        for each in (bare, server):
            run_load(Fill(port=each.port, stream=STREAM, content="bytes", appends=1, messages=1))
        pairs: list[tuple[Figures, Figures]] = []
        for number in range(PAIRS):
            if number % 2:
                pairs.append((append(bare), append(server)))
            else:
                with_metrics = append(server)
                pairs.append((append(bare), with_metrics))
    off, on = zip(*pairs, strict=True)
    kept = median(after["per_s"] / before["per_s"] for before, after in pairs) * 100
    cpu = median(cpu_s(after) / cpu_s(before) for before, after in pairs) * 100
    title = "appends, 64 connections"
    return [
        Measurement("metrics-off", f"{title}, metrics off", rate(off), "appends/s"),
        Measurement("metrics-on", f"{title}, metrics on", rate(on), "appends/s"),
        Measurement("metrics-kept", f"{title}: kept with metrics", kept, "%"),
        Measurement("metrics-cpu", f"{title}: CPU time with metrics", cpu, "%", "less"),
    ]


def rate(runs: Iterable[Figures]) -> float:
    return median(run["per_s"] for run in runs)


def cpu_s(run: Figures) -> float:
    return run["server_cpu"] / run["per_s"]


METRICS_SCENARIOS = [Scenario("metrics", measure_metrics, ours_only=True)]
