"""Chance, where everybody doing the same thing at the same time would be a crowd. Not for secrets.

A generator of its own: the process's shared one may be seeded, or watched, by whoever embeds this server.
"""

import random

from mainstem.streams.rules.cursors import JITTER_S_MAX

_chance = random.Random()


def draw_cursor_jitter_s() -> int:
    return _chance.randint(1, JITTER_S_MAX)


def add_jitter(seconds: float, share: float) -> float:
    """The time, up to `share` of it more or less."""
    return seconds * _chance.uniform(1 - share, 1 + share)
