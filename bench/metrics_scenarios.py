"""What metrics cost: appends with and without them, in turns on two servers, so that both meet the same noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.generator import run_load
from bench.load_jobs import Append, Figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Peer, Server, serve

TURNS = 6
"""Short turns, many of them: a slow second of the machine then hits both servers."""


def turn_off_metrics(peer: Peer) -> Peer:
    def make_command(port: int, data: Path) -> list[str]:
        return [*peer.make_command(port, data), "--metrics", "off"]

    return replace(peer, make_command=make_command)


def measure_metrics(server: Server, pace: Pace) -> list[Measurement]:
    figures: dict[int, list[Figures]] = {}
    with serve(turn_off_metrics(server.peer)) as bare:
        for each in (bare, server, server, bare) * (TURNS // 2):
            job = Append(
                port=each.port, pid=each.pid, connections=64, seconds=pace.seconds / 2, warmup_s=pace.warmup_s / 2
            )
            figures.setdefault(each.port, []).append(run_load(job))
    rates = {port: median(run["per_s"] for run in runs) for port, runs in figures.items()}
    times = {port: median(run["server_cpu"] / run["per_s"] for run in runs) * 1e6 for port, runs in figures.items()}
    title = "appends, 64 connections"
    return [
        Measurement("metrics-off", f"{title}, metrics off", rates[bare.port], "appends/s"),
        Measurement("metrics-on", f"{title}, metrics on", rates[server.port], "appends/s"),
        Measurement("metrics-off-cpu", "server's CPU time per append, metrics off", times[bare.port], "us", "less"),
        Measurement("metrics-on-cpu", "server's CPU time per append, metrics on", times[server.port], "us", "less"),
    ]


METRICS_SCENARIOS = [Scenario("metrics", measure_metrics, ours_only=True)]
