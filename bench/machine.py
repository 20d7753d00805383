"""A description of the machine, including the speed of its disk, on which durable appends depend."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.quantiles import find_quantile

PROBE_WRITES = 200


@dataclass(frozen=True)
class Machine:
    date: str
    cores: int
    cpu: str
    memory_gb: float
    system: str
    python: str
    load_average: float
    fdatasync_p50_ms: float
    fdatasync_p99_ms: float


def describe_machine(disk: Path) -> Machine:
    syncs = sorted(time_syncs(disk))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cores=len(os.sched_getaffinity(0)),
        cpu=read_cpu_name(),
        memory_gb=round(pages / 1e9, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load_average=round(os.getloadavg()[0], 2),
        fdatasync_p50_ms=round(find_quantile(syncs, 0.50) * 1000, 3),
        fdatasync_p99_ms=round(find_quantile(syncs, 0.99) * 1000, 3),
    )


def time_syncs(disk: Path) -> list[float]:
    """Measure small appends with fdatasync on a disk: the least that a durable append alone can cost."""
    disk.mkdir(parents=True, exist_ok=True)
    times_s: list[float] = []
    with tempfile.TemporaryFile(dir=disk) as file:
        for _ in range(PROBE_WRITES):
            started = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            times_s.append(time.perf_counter() - started)
    return times_s


def read_cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
