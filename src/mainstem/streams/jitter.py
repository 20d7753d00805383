"""Random jitter, so that many clients do not act at the same moment."""

from random import Random

from mainstem.streams.rules.cursors import JITTER_S_MAX


def draw_cursor_jitter_s(random: Random) -> int:
    return random.randint(1, JITTER_S_MAX)


def add_jitter(random: Random, seconds: float, share: float) -> float:
    """Return the time, randomly lengthened or shortened by up to `share` of it."""
    return seconds * random.uniform(1 - share, 1 + share)
