"""Disks that fill up quickly."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import miss

REMEDY = "run the tests as root, where it may mount a tmpfs"


@contextmanager
def mounted(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk of this size at the folder, whose parent must exist."""
    if os.geteuid() != 0:
        miss("root to mount a small disk", REMEDY)
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        folder.rmdir()
        miss(f"a small disk, but {done.stderr.strip()}", REMEDY)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def grow(folder: Path, size_bytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size_bytes}", folder], check=True)
