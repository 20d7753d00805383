"""Locks on files that one process at a time may hold. The kernel releases them when the process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.errors import MainstemError


@contextmanager
def hold_lock(path: Path, refuse: Callable[[str], MainstemError]) -> Iterator[None]:
    """Hold the lock during the block. If a process holds it already, raise the error that `refuse` returns for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(file):
            holder = _read_holder(file)
            raise refuse("another process" if holder is None else f"process {holder}")
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def find_holder(path: Path) -> int | None:
    """Return the process that holds the lock now, or None if none does."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(file) else _read_holder(file)
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(file: int) -> int | None:
    """Return the process that has noted itself in the file; None in the moment before it has."""
    text = os.pread(file, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
