"""Notices that nobody reads standard output any more, while a command that follows waits for something to print."""

import os
import select
import stat
import sys
import threading

from mainstem.cli.faults import ExitCode


def end_with_reader() -> None:
    """End the process when the reader of its output has gone, as `head -1`, which a write alone would tell too late.

    For commands that only print: nothing is left to be put in order.
    """
    try:
        out = sys.stdout.fileno()
        mode = os.fstat(out).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_wait_for_the_end, args=(out,), name="reader-of-output", daemon=True).start()


def _wait_for_the_end(out: int) -> None:
    poll = select.poll()
    poll.register(out, 0)  # asks for nothing, so only an error or a hang-up ends the wait
    while not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll()):
        pass
    os._exit(ExitCode.BROKEN_PIPE)
