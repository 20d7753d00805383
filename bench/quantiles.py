"""Quantiles of small samples."""

from __future__ import annotations

from collections.abc import Sequence


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of an ordered sample lies (nearest rank)."""
    if not ordered:
        raise ValueError("no samples: the server answered nothing during the measured time")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
