"""Space that is set aside on the disk of a store, as a file, so that a full disk still takes deletes."""

import errno
import os
from pathlib import Path

from mainstem import limits
from mainstem.private_files import PRIVATE, make_private

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """`is_held` says whether the space is there to be released. All of this runs on the writer's thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_held = False

    def acquire(self) -> bool:
        """Take the space, if there is so much; nothing is left behind if not."""
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
        """Whether there was space to release."""
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
    # Not every system and file system can set space aside without writing it.
    for at in range(0, size, limits.MIB):
        os.pwrite(file, bytes(min(limits.MIB, size - at)), at)
