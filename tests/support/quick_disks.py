"""Directories in memory and plain disks, for tests that open and close many stores."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.log.store.sqlite.journal import Disk

MEMORY = Path("/dev/shm")


class PlainDisk(Disk):
    """A disk without direct writes: to end them, the kernel takes longer than everything else that closes a store."""

    def open_direct_writer(self) -> None:
        return None


PLAIN_DISK = PlainDisk()


@contextmanager
def make_quick_directory() -> Iterator[Path]:
    """Make a directory in memory, if the system has that, and remove it at the end."""
    path = Path(tempfile.mkdtemp(prefix="mainstem-test-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield path
    finally:
        shutil.rmtree(path)
