"""The audit job on a log that is well: half of it stream messages, half of it events, which are hashed again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.generator import LoadFailed, run_load
from bench.jobs import Figures, Fill, SyncFill, decode_figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

ROWS = 1_000_000
BATCH = 100
LIMIT_S = 900.0
TIMES = 3


def measure_audit(server: Server, pace: Pace) -> list[Measurement]:
    half = int(ROWS * pace.fill) // 2
    port = server.port
    run_load(Fill(port=port, stream="audited", content="json", appends=half // BATCH, messages=BATCH, limit_s=LIMIT_S))
    run_load(SyncFill(port=port, events=half, partition="kept", kept=0, limit_s=LIMIT_S))
    figures = audit(server)
    title = f"audit of {2 * half / ROWS:g} million rows, half of them events"
    return [
        Measurement("audit", f"{title}, warm", figures["rows_per_s"], "rows/s", details=figures),
        Measurement("audit-cold", f"{title}, first time", figures["cold_rows_per_s"], "rows/s", details=figures),
    ]


def audit(server: Server) -> Figures:
    folder = server.folder / "audit"
    command = [sys.executable, "-m", "bench.auditing", str(server.port), str(folder), str(TIMES)]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent.parent, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"the audit took longer than {LIMIT_S:.0f} s") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip()[-2_000:])
    return decode_figures(done.stdout)


AUDIT_SCENARIOS = [Scenario("audit", measure_audit, ours_only=True)]
