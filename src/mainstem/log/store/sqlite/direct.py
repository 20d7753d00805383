"""Writes without a thread: the kernel writes and syncs, and tells the event loop when it is done.

A thread for that costs two thread switches per commit, and at both of them the thread and the event loop compete for
the interpreter. With a single client that takes half as long as the sync itself. Linux has asynchronous I/O instead
(`io_submit`), for files that are opened with O_DIRECT. Python has no function for it, so this module calls the kernel.

Such a write replaces whole blocks of a file. It must not make the file longer: that would block the event loop.
"""

import asyncio
import ctypes
import errno
import mmap
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from mainstem import limits

BLOCK_BYTES: Final = 4 * limits.KIB
"""Offsets and sizes are multiples of this, which suits every disk."""
UNSUPPORTED: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EAGAIN)
"""Errors of a file system that has no direct writes, or of a system that forbids them. Nothing was written then."""


class Calls(NamedTuple):
    """The numbers of the system calls."""

    setup: int
    destroy: int
    getevents: int
    submit: int


CALLS: Final = {"x86_64": Calls(206, 207, 208, 209), "aarch64": Calls(0, 1, 4, 2)}
PWRITE: Final = 1
NOTIFY: Final = 1


class Request(ctypes.Structure):
    """`struct iocb` of the kernel, on a little-endian machine."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("write_flags", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("file", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class Result(ctypes.Structure):
    """`struct io_event` of the kernel."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("value2", ctypes.c_int64),
    )


def open_direct(path: Path) -> int | None:
    """Open a file for direct writes that are synced; return None if its file system has none."""
    try:
        return os.open(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return None


def whole_blocks(size: int) -> int:
    """Return the size of the blocks that hold this many bytes."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class DirectFile(Protocol):
    direct: int | None


class DirectWriter:
    """Writes, one write at a time. Belongs to the event loop on which it was made."""

    def __init__(self) -> None:
        """Raises an OSError if the system has no asynchronous I/O."""
        calls = CALLS.get(platform.machine())
        if calls is None or sys.platform != "linux" or sys.byteorder != "little":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._calls = calls
        # PyDLL keeps the interpreter lock: these calls are shorter than it takes to get the lock back.
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._context = ctypes.c_uint64(0)
        self._call(calls.setup, 1, ctypes.byref(self._context))
        self._done = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._memory = mmap.mmap(-1, limits.DIRECT_WRITE_BYTES_MAX)  # begins at a page, as O_DIRECT requires
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._request = Request(operation=PWRITE, flags=NOTIFY, eventfd=self._done, address=address)
        self._requests = (ctypes.POINTER(Request) * 1)(ctypes.pointer(self._request))
        self._result = Result()
        self._waiting: asyncio.Future[None] | None = None
        self._begun_s = self._submitted_s = 0.0
        self._blocked = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._done, self._finish)

    @property
    def blocks(self) -> bool:
        """Whether the file system completes writes before `io_submit` returns: then a thread is better."""
        return self._blocked >= limits.DIRECT_WRITES_BLOCKED_MAX

    def _call(self, number: int, *args: Any) -> None:
        if self._syscall(number, *args) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def write(self, file: DirectFile, pieces: Sequence[bytes], offset: int) -> "asyncio.Future[None]":
        """Write at an offset within a file. The data is durable when the future has its result."""
        if self._waiting is not None:
            raise OSError(errno.EBUSY, "the last write is not done")
        assert file.direct is not None
        memory, size = self._memory, 0
        for piece in pieces:
            memory[size : size + len(piece)] = piece
            size += len(piece)
        request = self._request
        request.file, request.size, request.offset = file.direct, whole_blocks(size), offset
        self._begun_s = time.perf_counter()
        self._call(self._calls.submit, self._context, 1, self._requests)
        self._submitted_s = time.perf_counter()
        waiting = self._waiting = self._loop.create_future()
        return waiting

    def _finish(self) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        try:
            os.eventfd_read(self._done)
            self._call(self._calls.getevents, self._context, 1, 1, ctypes.byref(self._result), None)
            value = self._result.value
            if value != self._request.size:
                code = -value if value < 0 else errno.EIO
                raise OSError(code, os.strerror(code))
        except OSError as error:
            if not waiting.cancelled():
                waiting.set_exception(error)
            return
        self._note_blocking()
        if not waiting.cancelled():
            waiting.set_result(None)

    def _note_blocking(self) -> None:
        blocked_s = self._submitted_s - self._begun_s
        if blocked_s > limits.DIRECT_WRITE_BLOCKED_S and 2 * blocked_s > time.perf_counter() - self._begun_s:
            self._blocked += 1
        else:
            self._blocked = 0

    def close(self) -> None:
        self._loop.remove_reader(self._done)
        self._call(self._calls.destroy, self._context)  # waits for a write that is not done
        os.close(self._done)
