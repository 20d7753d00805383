"""Order statistics of small samples."""

from __future__ import annotations

from collections.abc import Sequence


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of an ordered sample lies (nearest rank)."""
    if not ordered:
        raise ValueError("no samples: nothing was answered in the measured window")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
