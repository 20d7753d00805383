"""A clock that can be set while a server runs: a file holds by how much it differs from the real one."""

import mmap
import struct
import time
from pathlib import Path

_FORMAT = struct.Struct("<q")
NS = 1_000_000_000


class SteerableClock:
    """The clock of a server in another process, which begins with `follow_clock`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.shift_s = 0.0
        file.write_bytes(_FORMAT.pack(0))

    def jump(self, shift_s: float) -> None:
        """Set by how much the clock differs from the real one, from now on."""
        self.shift_s = shift_s
        with self.file.open("r+b") as file:
            file.write(_FORMAT.pack(round(shift_s * NS)))


def follow_clock(file: Path) -> None:
    """Let this process read the time from a steered clock. Monotonic time stays as it is."""
    with file.open("rb") as opened:
        shift = mmap.mmap(opened.fileno(), _FORMAT.size, access=mmap.ACCESS_READ)
    real_ns = time.time_ns

    def time_ns() -> int:
        return real_ns() + int(_FORMAT.unpack_from(shift)[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / NS
