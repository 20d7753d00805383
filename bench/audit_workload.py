"""`python -m bench.audit_workload PORT FOLDER TIMES`: audit a filled server with Spark, and print the figures."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.load_jobs import Figures, encode_figures
from bench.wire import HOST
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.audit.job import AuditOptions, AuditSummary, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.runner import run_once

MASTER = "local[2]"


def measure(port: int, folder: Path, times: int) -> Figures:
    """Audit the whole log several times: the first is cold, the figure is the fastest of the rest."""
    context = JobContext(ServerOptions(f"http://{HOST}:{port}"), folder, master=MASTER)
    started = time.perf_counter()
    _ = context.spark
    figures: Figures = {"session_s": time.perf_counter() - started}
    rates = []
    for _ in range(times):
        found = run_once(make_audit(AuditOptions()), context)
        assert isinstance(found, AuditSummary)
        if found.faults:
            raise SystemExit(f"the log of the benchmark has faults: {found.examples}")
        rates.append(found.rows / found.seconds)
        figures |= {"rows": found.rows, "events": found.events, "mb": found.bytes / 1e6}
    context.spark.stop()
    return figures | {"cold_rows_per_s": rates[0], "rows_per_s": max(rates[1:], default=rates[0])}


if __name__ == "__main__":
    print(encode_figures(measure(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
