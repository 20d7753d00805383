"""Files that only their owner may read, whatever the permissions of the directory and the umask."""

import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger(__name__)

PRIVATE = 0o600


def prepare_database(path: Path) -> None:
    """Make a database and its journals private before SQLite opens them.

    SQLite gives new journals the mode of their database, so this creates a missing database as an empty file. It does
    not open an existing one: closing it would drop the locks that this process may hold on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    except FileExistsError:
        make_private(path)
    for suffix in ("-wal", "-shm", "-journal"):
        make_private(path.with_name(path.name + suffix))


def make_private(path: Path) -> None:
    """Revoke the permissions of group and others on a file, if it exists and belongs to this user."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE)
    except FileNotFoundError:
        return
    except PermissionError:
        logger.warning("%s belongs to another user, so its permissions cannot be restricted", path)
