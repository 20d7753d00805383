"""Local files that, after a crash, have either all of their new content or none of it."""

import os
import uuid
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically, and make it durable."""
    new = _write_beside(path, data)
    os.replace(new, path)
    fsync(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Do the same, but keep a file that exists already, even if two processes create it at the same time."""
    new = _write_beside(path, data)
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    new.unlink()
    fsync(path.parent)


def fsync(path: Path | str) -> None:
    """Make a file or directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_beside(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")  # Spark ignores names that begin with a dot
    new.write_bytes(data)
    fsync(new)
    return new
