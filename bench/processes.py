"""The memory and the CPU time of a server and its child processes, as Linux reports them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.load_jobs import Figures

PROC = Path("/proc")


def list_tree(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            # The command name may contain spaces and brackets; the fields after its last bracket do not.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    tree = [pid]
    for member in tree:
        tree += children.get(member, [])
    return tree


def read_status(pid: int, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise ValueError(f"no {field} in the status of process {pid}")


def measure_rss(pid: int) -> int:
    return sum(read_status(member, "VmRSS") for member in list_tree(pid))


def reset_peak(pid: int) -> None:
    """Lower the kernel's high-water mark to the current size, so that the next peak is caused by the load."""
    for member in list_tree(pid):
        (PROC / str(member) / "clear_refs").write_text("5")


def measure_peak(pid: int) -> int:
    return sum(read_status(member, "VmHWM") for member in list_tree(pid))


def measure_cpu_s(pid: int) -> float:
    ticks = 0
    for member in list_tree(pid):
        fields = (PROC / str(member) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # in user mode and in the kernel
    return ticks / os.sysconf("SC_CLK_TCK")


class CpuMeter:
    """How many cores the load generator uses from now on, and the server if its process id is given."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._began = self._read()

    def _read(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), measure_cpu_s(self._pid) if self._pid is not None else 0.0

    def stop(self) -> Figures:
        elapsed, generator, server = (end - began for began, end in zip(self._began, self._read(), strict=True))
        figures = {"generator_cpu": generator / elapsed}
        return figures if self._pid is None else figures | {"server_cpu": server / elapsed}
