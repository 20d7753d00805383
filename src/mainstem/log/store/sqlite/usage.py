"""How much disk space the files of a store take, and how much is left."""

import shutil
from pathlib import Path
from typing import Final

from mainstem.log.store.base import DiskUsage
from mainstem.log.store.sqlite.connections import STORE_NAME
from mainstem.log.store.sqlite.journal import NAMES

PARTS: Final = {
    "database": (STORE_NAME,),
    "wal": (f"{STORE_NAME}-wal",),
    "journal": NAMES,
    "reserve": ("reserve",),
}


def measure_files(directory: Path) -> DiskUsage:
    sizes = {part: sum(_size(directory / name) for name in names) for part, names in PARTS.items()}
    return DiskUsage(sizes, shutil.disk_usage(directory).free)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # a store that is idle has no journal
