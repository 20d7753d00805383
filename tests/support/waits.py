"""Waiting for what a server does by itself, later, and tells nobody about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S_MAX = 15.0  # only what never happens takes so long
LOOK_AGAIN_S = 0.02


def eventually(look: Callable[[], T]) -> T:
    """The first true answer."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not (found := look()):
        assert time.monotonic() < deadline_s, f"not within {WAIT_S_MAX:g} s, the last answer was {found!r}"
        time.sleep(LOOK_AGAIN_S)
    return found
