"""`python -m bench.archive_workload PORT FOLDER TIMES`: archive a filled server with Spark, and print the figures.

It runs in its own process, because Spark's driver, whose memory is measured, is this process and the Java that it
starts.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from bench.load_jobs import Figures, encode_figures
from bench.processes import PROC, list_tree, read_status
from bench.wire import HOST
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import ArchiveSummary, make_archive
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.runner import run_once

MASTER = "local[2]"


def measure(port: int, folder: Path, times: int) -> Figures:
    """Archive the whole log into new tables several times: the first is cold, the figure is the fastest of the rest."""
    context = JobContext(ServerOptions(f"http://{HOST}:{port}"), folder / "checkpoint", master=MASTER)
    started = time.perf_counter()
    _ = context.spark
    figures: Figures = {"session_s": time.perf_counter() - started}
    rates = []
    for number in range(times):
        table = folder / f"table-{number}"
        found, seconds = archive(context, table)
        if number == 0:
            figures["rewrite_rows_per_s"] = found.rows / rewrite(context, table, folder / "rewritten")
        shutil.rmtree(table)
        rates.append(found.rows / seconds)
        figures |= {"rows": found.rows, "files": found.files, "mb": found.bytes / 1e6, "compacted": found.compacted}
    figures |= {"cold_rows_per_s": rates[0], "rows_per_s": max(rates[1:], default=rates[0])}
    return figures | measure_driver()


def archive(context: JobContext, table: Path) -> tuple[ArchiveSummary, float]:
    started = time.perf_counter()
    found = run_once(make_archive(str(table)), context)
    assert isinstance(found, ArchiveSummary)
    return found, time.perf_counter() - started


def rewrite(context: JobContext, table: Path, target: Path) -> float:
    """Return the seconds that Spark needs to read the Parquet files of a table and write their rows again: the faster
    of two runs, after one that does not count."""
    times_s = []
    for _ in range(3):
        started = time.perf_counter()
        context.spark.read.parquet(str(table)).write.mode("overwrite").parquet(str(target))
        times_s.append(time.perf_counter() - started)
    shutil.rmtree(target)
    return min(times_s[1:])


def measure_driver() -> Figures:
    """Return the peak resident memory in MB: of this process and its Java, and of the Python tasks."""
    own, *others = list_tree(int((PROC / "self").readlink().name))
    java: list[float] = []
    tasks: list[float] = []
    for member in others:
        name, state = read_name(member)
        if state != "Z":  # a process that has ended holds no memory
            (java if name == "java" else tasks).append(read_status(member, "VmHWM") / 1e6)
    python = read_status(own, "VmHWM") / 1e6
    return {"driver_mb": python + sum(java), "driver_python_mb": python, "tasks_mb": sum(tasks)}


def read_name(pid: int) -> tuple[str, str]:
    """Return the name of a process and the letter of its state."""
    name, _, rest = (PROC / str(pid) / "stat").read_text().partition("(")[2].rpartition(")")
    return name, rest.split()[0]


if __name__ == "__main__":
    print(encode_figures(measure(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
