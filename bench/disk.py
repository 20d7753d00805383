"""The size of a folder on disk."""

from __future__ import annotations

from pathlib import Path


def measure_folder(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
