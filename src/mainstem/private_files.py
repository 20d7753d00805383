"""Databases that only their owner may read, whatever the directory and the umask."""

import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger(__name__)

PRIVATE = 0o600


def prepare_database(path: Path) -> None:
    """Make a database, and the journals beside it, private before SQLite opens them.

    SQLite gives new journals the mode of their database, so one that is missing is made here, empty. One that is there
    is not opened: closing it would drop the locks that this process may have on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    except FileExistsError:
        make_private(path)
    for suffix in ("-wal", "-shm", "-journal"):
        make_private(path.with_name(path.name + suffix))


def make_private(path: Path) -> None:
    """Take the rights of group and others from a file, if it is there and ours."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE)
    except FileNotFoundError:
        return
    except PermissionError:
        logger.warning("%s belongs to another user, who decides who else may read it", path)
