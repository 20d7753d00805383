"""Kills running servers, nodes, Spark drivers and jobs at a moment that the test chooses."""

import time
from collections.abc import Callable
from typing import Protocol

from tests.support.waits import eventually

START_S_MAX = 100.0  # Spark starts in five seconds, but not on a busy machine


class Killable(Protocol):
    @property
    def running(self) -> bool: ...

    def kill(self) -> object: ...


def kill_when(
    victim: Killable,
    reached: Callable[[], object],
    *,
    then_s: float = 0.0,
    at_work: bool = True,
    within_s: float = START_S_MAX,
) -> None:
    """Send SIGKILL when the gate is reached, or `then_s` later.

    The test fails if the victim ends before the gate, and also if it ends in the time after it, unless `at_work` is
    False: then the kill may come too late.
    """

    def ended() -> str | None:
        return None if victim.running else f"it has ended: {getattr(victim, 'ending', '')}"

    eventually(reached, within_s=within_s, unless=ended)
    time.sleep(then_s)
    assert victim.running or not at_work, ended()
    victim.kill()
