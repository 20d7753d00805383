"""Large blocks of memory that are used again and again, such as pages of the log."""

import ctypes
from functools import cache

from mainstem import limits

M_TRIM_THRESHOLD = -1  # from malloc.h
M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next large block.

    Otherwise the system takes such a block back and clears a new one: a third of the time that receiving a page takes.
    This has no effect with C libraries that have no `mallopt`.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_MMAP_THRESHOLD, limits.KEPT_BLOCK_BYTES_MAX)
    mallopt(M_TRIM_THRESHOLD, limits.FREED_BYTES_KEPT_MAX)
