"""A folder on disk: its size, and its pages in memory."""

from __future__ import annotations

import os
from pathlib import Path


def measure_folder(folder: Path) -> int:
    return sum(file.stat().st_size for file in list_files(folder))


def drop_cached_pages(folder: Path) -> None:
    """Drop the page cache of the files. It keeps pages that are not synced, and those that a process has mapped."""
    for file in list_files(folder):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def list_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]
