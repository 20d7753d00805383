"""The snapshot job on many events of few keys: last writer wins, from the beginning of the log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.generator import LoadFailed
from bench.jobs import decode_figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

EVENTS = 1_000_000
LIMIT_S = 900.0


def measure_snapshot(server: Server, pace: Pace) -> list[Measurement]:
    events = int(EVENTS * pace.fill)
    folder = server.folder / "snapshot"
    command = [sys.executable, "-m", "bench.snapshotting", str(server.port), str(folder), str(events)]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent.parent, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"the snapshot took longer than {LIMIT_S:.0f} s") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip()[-2_000:])
    figures = decode_figures(done.stdout)
    title = f"lww snapshot of {events / EVENTS:g} million events over 10 000 keys"
    return [
        Measurement("snapshot", f"{title}, warm", figures["seconds"], "s", "less", figures),
        Measurement("snapshot-cold", f"{title}, first time", figures["cold_s"], "s", "less", figures),
    ]


SNAPSHOT_SCENARIOS = [Scenario("snapshot", measure_snapshot, ours_only=True)]
