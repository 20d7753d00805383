"""What a server uses, measured from outside, and whether that grows."""

import asyncio
import os
import signal
import struct
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

_FORMAT = struct.Struct("<q")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ANSWER_TRIES_MAX = 500


class Sample(NamedTuple):
    """What a server uses at one moment."""

    life: int
    """How often the server was started before."""
    memory_bytes: int
    disk_bytes: int
    files: int
    threads: int
    tasks: int


class Growth(NamedTuple):
    """How one measure changed in the last life of a server."""

    measure: str
    before: float
    after: float
    allowed: float
    """The highest value that counts as flat."""

    @property
    def flat(self) -> bool:
        return self.after <= self.allowed


ALLOWED = {
    "memory_bytes": (0.05, 4e6),
    "disk_bytes": (0.1, 8e6),
    "files": (0.02, 10),
    "threads": (0, 2),
    "tasks": (0.02, 10),
}
"""By which share, and by how much in addition, a measure may differ from what it was before."""


def measure_growth(samples: Sequence[Sample]) -> list[Growth]:
    """Compare the last quarter of the last life with its second quarter; the first one is for warming up."""
    life = [sample for sample in samples if sample.life == samples[-1].life]
    quarter = len(life) // 4
    if not quarter:
        return []
    found = []
    for measure, (share, more) in ALLOWED.items():
        before = median(getattr(sample, measure) for sample in life[quarter : 2 * quarter])
        after = median(getattr(sample, measure) for sample in life[-quarter:])
        found.append(Growth(measure, before, after, before * (1 + share) + more))
    return found


class TaskCounter:
    """Counts the asyncio tasks of a server in another process, which begins with `count_tasks_when_asked`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(_FORMAT.pack(-1))

    async def count(self, pid: int) -> int:
        self.file.write_bytes(_FORMAT.pack(-1))
        os.kill(pid, signal.SIGUSR1)
        for _ in range(ANSWER_TRIES_MAX):
            (counted,) = _FORMAT.unpack(self.file.read_bytes())
            if counted >= 0:
                return int(counted)
            await asyncio.sleep(0.02)
        raise TimeoutError("the server does not answer a signal")


def count_tasks_when_asked(file: Path) -> None:
    """Write the number of tasks to the file whenever this process gets SIGUSR1."""

    def answer(_number: int, _frame: object) -> None:
        with file.open("r+b") as opened:
            opened.write(_FORMAT.pack(len(asyncio.all_tasks())))

    signal.signal(signal.SIGUSR1, answer)


async def take_sample(pid: int, life: int, data: Path, tasks: TaskCounter) -> Sample:
    """Measure a running server. Raises `OSError` if it ends meanwhile."""
    return Sample(
        life=life,
        memory_bytes=_memory_bytes(pid),
        disk_bytes=sum(file.stat().st_blocks * 512 for file in _list(data)),
        files=len(_list(Path(f"/proc/{pid}/fd"))),
        threads=len(_list(Path(f"/proc/{pid}/task"))),
        tasks=await tasks.count(pid),
    )


def _list(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def _memory_bytes(pid: int) -> int:
    """Return the memory of a process and of the workers that it has started."""
    total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    for task in _list(Path(f"/proc/{pid}/task")):
        for child in (task / "children").read_text().split():
            try:
                total += _memory_bytes(int(child))
            except OSError:
                pass  # it has just ended
    return total
