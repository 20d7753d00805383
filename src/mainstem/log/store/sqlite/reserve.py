"""Disk space that a store reserves, as a file, so that deletes still work on a full disk."""

import os
from pathlib import Path

from mainstem import limits
from mainstem.log.store.sqlite.journal import NO_SPACE
from mainstem.private_files import PRIVATE, make_private


class Reserve:
    """The reserve file. `is_held` is True while there is space to release. Runs on the writer thread only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_held = False

    def acquire(self) -> bool:
        """Reserve the space, and return whether the disk had enough of it. If not, no file is left."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        make_private(self.path)
        try:
            _allocate(file, limits.RESERVE_BYTES)
            self.is_held = True
        except OSError as error:
            self.path.unlink()
            if error.errno not in NO_SPACE:
                raise
        finally:
            os.close(file)
        return self.is_held

    def release(self) -> bool:
        """Remove the file, and return whether it held space."""
        given, self.is_held = self.is_held, False
        self.path.unlink(missing_ok=True)
        return given


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
            return
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
    # Not every system and file system can allocate space without writing it.
    for at in range(0, size, limits.MIB):
        os.pwrite(file, bytes(min(limits.MIB, size - at)), at)
