"""The resident memory of a server and its child processes, as Linux reports it."""

from __future__ import annotations

from pathlib import Path

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
