"""For commands that print until Ctrl-C, or until the reader of their output closes it."""

import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from mainstem.cli.failures import ExitCode


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the command silently on Ctrl-C, and end the process when the reader of its output is gone.

    For commands that only print, and have nothing to clean up.
    """
    exit_on_broken_pipe()
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def exit_on_broken_pipe() -> None:
    """End the process when the reader of its output, such as `head -1`, is gone. The next write may come much later."""
    try:
        out = sys.stdout.fileno()
        mode = os.fstat(out).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_wait_for_hangup, args=(out,), name="broken-pipe", daemon=True).start()


def _wait_for_hangup(out: int) -> None:
    poll = select.poll()
    poll.register(out, 0)  # no events are requested, so only an error or a hang-up ends the wait
    while not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll()):
        pass
    os._exit(ExitCode.BROKEN_PIPE)
