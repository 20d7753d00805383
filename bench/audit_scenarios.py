"""The audit job on a log without faults: half of it stream messages, half of it events, which are hashed again."""

from __future__ import annotations

import shutil

from bench.generator import run_load, run_module
from bench.load_jobs import Figures, Fill, SyncFill
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
    try:
        return run_module("bench.audit_workload", server.port, folder, TIMES, name="the audit", limit_s=LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


AUDIT_SCENARIOS = [Scenario("audit", measure_audit, ours_only=True)]
