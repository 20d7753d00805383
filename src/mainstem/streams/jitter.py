"""Random jitter, so that many clients do not act at the same moment. Not for secrets.

It uses its own generator, because an application that embeds this server may seed or observe the shared one.
"""

import random

from mainstem.streams.rules.cursors import JITTER_S_MAX

_random = random.Random()


def draw_cursor_jitter_s() -> int:
    return _random.randint(1, JITTER_S_MAX)


def add_jitter(seconds: float, share: float) -> float:
    """Return the time, randomly lengthened or shortened by up to `share` of it."""
    return seconds * _random.uniform(1 - share, 1 + share)
