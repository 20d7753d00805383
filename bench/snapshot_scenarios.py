"""The snapshot job on many events with few keys: last writer wins, from the beginning of the log."""

from __future__ import annotations

import shutil

from bench.generator import run_module
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

EVENTS = 1_000_000
LIMIT_S = 900.0


def measure_snapshot(server: Server, pace: Pace) -> list[Measurement]:
    events = int(EVENTS * pace.fill)
    folder = server.folder / "snapshot"
    try:
        figures = run_module(
            "bench.snapshot_workload", server.port, folder, events, name="the snapshot", limit_s=LIMIT_S
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    title = f"lww snapshot of {events / EVENTS:g} million events over 10 000 keys"
    return [
        Measurement("snapshot", f"{title}, warm", figures["seconds"], "s", "less", figures),
        Measurement("snapshot-cold", f"{title}, first time", figures["cold_s"], "s", "less", figures),
    ]


SNAPSHOT_SCENARIOS = [Scenario("snapshot", measure_snapshot, ours_only=True)]
