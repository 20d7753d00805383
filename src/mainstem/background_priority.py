"""A low priority for work that must not delay a server on the same machine."""

import ctypes
import os
import platform
import sys
import threading
from typing import Final

from mainstem import limits

SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
"""The numbers of the system call, for which Python has no function."""


class SchedulingAttributes(ctypes.Structure):
    """`struct sched_attr` of the kernel, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def enter_background(niceness: int) -> None:
    """Lower the priority of this thread, and of the threads and processes that it will start.

    On Linux the thread also becomes a batch thread with a long time slice. A slice of the usual length would protect it
    from others until it ends: for up to 3 ms, a commit could not continue after its sync (docs/adr/0014). A kernel that
    knows no such slices ignores them.
    """
    if sys.platform != "linux":  # priorities belong to processes there, and the caller's process keeps its own
        return
    niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    if not _set_attributes(niceness):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _set_attributes(niceness: int) -> bool:
    """Return whether the kernel has accepted niceness, policy and time slice in one call."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is None:
        return False
    size = ctypes.sizeof(SchedulingAttributes)
    wanted = SchedulingAttributes(size, os.SCHED_BATCH, 0, niceness, 0, limits.BACKGROUND_SLICE_NS)
    return bool(ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wanted), 0) == 0)
