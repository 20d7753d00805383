"""Reading from a worker process: large replies go from its pipe straight into their final buffer."""

import asyncio
import contextlib
import fcntl
import os

from mainstem import limits


def open_pipe() -> tuple[int, int]:
    """Return the two ends of a pipe that holds `LOG_PIPE_BYTES`, where the system has such pipes."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    with contextlib.suppress(AttributeError, OSError):  # only Linux has this, and an administrator may limit it
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, limits.LOG_PIPE_BYTES)
    return reads, writes


class PipeReader:
    """Reads exactly as many bytes as are asked for, one read at a time. It owns the pipe's end."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()

    async def read(self, size: int) -> bytearray:
        """Return the next bytes. Raises EOFError if the pipe ends before them."""
        buffer = bytearray(size)
        if not size:
            return buffer
        rest = memoryview(buffer)
        complete: asyncio.Future[None] = self._loop.create_future()

        def fill() -> None:
            nonlocal rest
            if complete.done():
                return
            try:
                count = os.readv(self._pipe, [rest])
            except BlockingIOError:
                return
            except OSError as error:
                complete.set_exception(error)
                return
            rest = rest[count:]
            if not count:
                complete.set_exception(EOFError())
            elif not rest:
                complete.set_result(None)

        self._loop.add_reader(self._pipe, fill)
        try:
            await complete
        finally:
            self._loop.remove_reader(self._pipe)
        return buffer

    def close(self) -> None:
        os.close(self._pipe)
